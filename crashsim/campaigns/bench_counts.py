"""System calls of the reference store, with and without what the seeds' authors proposed.

Counted by the store itself (`--stats`), in a repository of the host: no figure here depends on how
fast anything is.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from crashsim.campaigns.benchmark import Benchmark, Ratio, figure
from crashsim.campaigns.options import Progress
from crashsim.errors import InfrastructureError
from crashsim.workloads.simulated import PROGRAM

OBJECTS_DEFAULT = 2_000
REFERENCES_DEFAULT = 10_000
FILES_DEFAULT = 500

Counts = Mapping[str, Mapping[str, int]]
"""Component -> system call -> how often it was made."""

_PEOPLE = {
    f"GIT_{role}_{what}": value
    for role in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "Crash Test"), ("EMAIL", "crash@localhost"))
}


class StoreFailed(InfrastructureError):
    """The reference store did not do on the host what the benchmark asked of it."""


@dataclass(frozen=True)
class Store:
    """A repository of the reference store in a directory of the host."""

    directory: Path

    def run(
        self,
        *arguments: str,
        settings: Sequence[str] = (),
        standard_input: bytes = b"",
        environment: Mapping[str, str] | None = None,
    ) -> Counts:
        """Run one command and count its calls. Raises StoreFailed."""
        statistics = self.directory.parent / "statistics.json"
        chosen = [word for setting in settings for word in ("-c", setting)]
        command = [sys.executable, "-m", PROGRAM, "--stats", str(statistics), *chosen, *arguments]
        done = subprocess.run(
            command,
            cwd=self.directory,
            input=standard_input,
            capture_output=True,
            env={**os.environ, **_PEOPLE, "GIT_CONFIG_NOSYSTEM": "1", **(environment or {})},
            check=False,
        )
        if done.returncode != 0:
            told = done.stderr.decode("utf-8", "replace").strip()
            raise StoreFailed(f"{' '.join(arguments[:3])} exited with {done.returncode}: {told}")
        calls: Counts = json.loads(statistics.read_bytes())["calls"]
        return calls


def bench_counts(objects: int, references: int, files: int, progress: Progress) -> Benchmark:
    """Count what the seeds are about. Raises StoreFailed."""
    figures, ratios = [], []
    for number, part in enumerate((_midx_repack, _references, _index_flush)):
        progress("count", number, 3)
        rows, ratio = part((objects, references, files)[number])
        figures += [figure(name, "calls", [float(count)]) for name, count in rows.items()]
        ratios += ratio
    return Benchmark(
        "counts",
        figures,
        ratios,
        notes=[
            f"{objects:,} objects, {references:,} references, {files:,} files; counted by --stats",
            "seed 004: 921,650 writes became 4,613; seed 000: 51 thousand calls became 39",
        ],
    )


@contextmanager
def _repository(*options: str) -> Iterator[Store]:
    with tempfile.TemporaryDirectory(prefix="crashsim-counts-") as parent:
        store = Store(Path(parent) / "repository")
        store.directory.mkdir()
        store.run("init", "-q", *options)
        yield store


def _write_files(store: Store, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        (store.directory / f"{number % 50:02}").mkdir(exist_ok=True)
        (store.directory / f"{number % 50:02}" / f"{number}").write_bytes(b"file %d\n" % number)


def _midx_repack(objects: int) -> tuple[dict[str, int], list[Ratio]]:
    """write(2) to the pack-objects that a multi-pack-index repack feeds."""
    counts = {}
    for name, size in (("unbuffered", 0), ("through one buffer of 4 KiB", 4096)):
        with _repository() as store:
            for half in range(2):
                _write_files(store, objects // 2, half * objects)
                store.run("add", "--all")
                store.run("commit", "-q", "-m", f"half {half}")
                store.run("repack", "-q", "-d")
            store.run("multi-pack-index", "write")
            made = store.run(
                *("multi-pack-index", "repack", "--batch-size=0"),
                settings=[f"refgit.midxRepackBuffer={size}"],
            )
            counts[f"write(2) to pack-objects, {name}"] = made["outside"]["write"]
    before, after = counts.values()
    ratio = Ratio("writes to pack-objects, unbuffered / buffered", before / after, "≥ 190")
    return counts, [ratio]


def _references(references: int) -> tuple[dict[str, int], list[Ratio]]:
    """Reads of a reftable stack by an update of many references, one transaction each."""
    switches = {
        "": {},
        ", the list re-read each time": {"REFGIT_REFTABLE_WATCH": "0"},
        ", tables not mapped": {"REFGIT_REFTABLE_MAP": "0"},
    }
    counts = {}
    for name, environment in switches.items():
        with _repository("--ref-format=reftable") as store:
            _write_files(store, 1)
            store.run("add", "--all")
            store.run("commit", "-q", "-m", "one")
            lines = b"".join(
                b"create refs/heads/branch-%05d HEAD\n" % number for number in range(references)
            )
            store.run("update-ref", "--stdin", standard_input=lines)
            again = lines.replace(b"create", b"verify")
            made = store.run(
                "update-ref", "--stdin", standard_input=again, environment=environment
            )["reference"]
            reads = sum(made.get(call, 0) for call in ("openat", "read", "pread64"))
            counts[f"opens and reads of the reftable{name}"] = reads
    plain, listed, unmapped = counts.values()
    return counts, [
        Ratio("reftable: list re-read each time / watched", listed / plain),
        Ratio("reftable: tables read / mapped", unmapped / plain),
    ]


def _index_flush(files: int) -> tuple[dict[str, int], list[Ratio]]:
    """All calls of update-index of many new files, under the two methods."""
    counts = {}
    for method in ("batch", "index-flush"):
        with _repository() as store:
            _write_files(store, files)
            names = sorted(
                str(path.relative_to(store.directory)) for path in store.directory.glob("[0-9]*/*")
            )
            made = store.run(
                *("update-index", "--add", "--stdin"),
                settings=["core.fsync=all", f"core.fsyncMethod={method}"],
                standard_input="".join(f"{name}\n" for name in names).encode(),
            )
            counts[f"calls of update-index, {method}"] = sum(
                count for calls in made.values() for count in calls.values()
            )
    batch, flush = counts.values()
    return counts, [Ratio("update-index, index-flush / batch", flush / batch, "seed: 39/51 = 0.76")]
