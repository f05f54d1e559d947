"""`python -m tests.fuzz [--seconds N] [TARGET...]`: fuzz the parsers, guided by coverage.

Needs atheris, which is no dependency of the tests: `pip install atheris`. The seconds (600 if not
given) are shared among the targets. A finding ends the run with exit code 1; its input is kept in
`crashsim-out/fuzz/`, and `python -m tests.fuzz --replay FILE TARGET` runs it again, without
atheris.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from impl.errors import StoreError
from tests.fuzz.targets import targets

FINDINGS = Path("crashsim-out/fuzz")


def main() -> int:
    """Run each target in a process of its own: libFuzzer ends the one that it runs in."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="default: all")
    parser.add_argument("--seconds", type=int, default=600, help="in total (default: 600)")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="run one input")
    arguments = parser.parse_args()
    known = targets()
    chosen = arguments.targets or list(known)
    if unknown := sorted(set(chosen) - known.keys()):
        parser.error(f"no such target: {', '.join(unknown)}; there are {', '.join(known)}")
    if arguments.replay is not None:
        for name in chosen:
            replay(name, arguments.replay.read_bytes())
        return 0
    seconds = max(1, arguments.seconds // len(chosen))
    failed = [name for name in chosen if not fuzz(name, seconds)]
    print(f"{len(chosen)} targets, {seconds} s each; findings in: {', '.join(failed) or 'none'}")
    return 1 if failed else 0


def replay(name: str, data: bytes) -> None:
    """Run a target on one input. Raises what it raises, unless that is the clear error."""
    try:
        targets()[name](data)
    except StoreError as error:
        print(f"{name}: {type(error).__name__}: {error}")
    else:
        print(f"{name}: accepted")


def fuzz(name: str, seconds: int) -> bool:
    """Whether the target stood the time. Raises SystemExit if atheris is missing."""
    FINDINGS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fuzz-corpus-") as corpus:
        for number, sample in enumerate(targets()[name].samples):
            Path(corpus, str(number)).write_bytes(sample)
        done = subprocess.run(
            [
                *(sys.executable, "-m", "tests.fuzz.worker", name, corpus),
                *(f"-max_total_time={seconds}", f"-artifact_prefix={FINDINGS}/{name}-"),
                *("-timeout=10", "-rss_limit_mb=1024", "-max_len=16384", "-print_final_stats=1"),
            ],
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    figures = [
        line for line in done.stderr.splitlines() if line.startswith(("stat::number", "Done"))
    ]
    print(f"{name}: {' '.join(' '.join(figures).split())}", flush=True)
    if done.returncode:
        print(done.stderr[-4000:], file=sys.stderr)
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
