"""Repositories with a history that packs are made of, and what is listed of them."""

from collections.abc import Iterator
from pathlib import Path

from tests.support.impl_command import Program, git


def make_history(path: Path, object_format: str) -> Path:
    path.mkdir()
    run = git(path)
    run("init", "-q", "-b", "main", f"--object-format={object_format}")
    stream = b"".join(_commits())
    run("fast-import", "--quiet", stdin=stream)
    run("reset", "-q", "--hard", "main")
    pack = next((path / ".git/objects/pack").glob("*.pack"))
    content = pack.read_bytes()
    for file in list((path / ".git/objects/pack").iterdir()):
        file.unlink()
    run("unpack-objects", "-q", stdin=content)
    run("tag", "-a", "-m", "a release", "v1", "main~3")
    run("reset", "-q", "--hard", "main")
    return path


def _commits() -> Iterator[bytes]:
    lines = [f"line {number} of the text, of some length" for number in range(150)]
    for number in range(30):
        lines[number * 5] = f"changed in commit {number}"
        text = "\n".join(lines)
        branch = "main" if number % 10 else "side"
        merge = "merge refs/heads/side\n" if number == 21 else ""
        yield (
            f"commit refs/heads/{branch}\ncommitter C <c@example.org> {1700000000 + number} +0000\n"
            f"data 7\ncommit\n{merge}"
            f"M 100644 inline d{number % 3}/file\ndata {len(text)}\n{text}\n"
            f"M 100644 inline d{number % 3}/other{number}\ndata 3\n{number:03d}\n"
        ).encode()


def names(run: Program) -> list[str]:
    return sorted(run("rev-list", "--objects", "--all").splitlines())


def bitmap_names(run: Program) -> list[str]:
    listed = run("rev-list", "--objects", "--all", "--use-bitmap-index").splitlines()
    return sorted(line[: line.find(" ")] if " " in line else line for line in listed)


def plain(listed: list[str]) -> list[str]:
    return sorted(line.partition(" ")[0] for line in listed)


def pack_files(path: Path, suffix: str) -> list[Path]:
    return sorted((path / ".git/objects/pack").glob(f"*{suffix}"))


def several_packs(path: Path, run: Program) -> None:
    run("repack", "-d", "-q")
    for number in range(4):
        (path / "grows").write_text("line\n" * (number + 1))
        git(path)("add", "grows")
        git(path)("commit", "-q", "-m", f"grown {number}")
        run("repack", "-d", "-q")
