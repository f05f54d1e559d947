"""What a command asked of the kernel, from strace(1): a list of steps on files of a repository."""

import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.impl_command import Program

CALLS = (
    "openat,read,pread64,write,close,link,unlink,rename,mkdir,rmdir,symlink,readlink,ftruncate,"
    "fsync,fdatasync,sync_file_range,syncfs,mmap,newfstatat,utimensat,fchmod,getdents64"
)

_LINE = re.compile(r"(?:\d+ +)?(?P<call>\w+)\((?P<arguments>.*)\) += (?P<result>-?\d+|0x[0-9a-f]+)")
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
_DESCRIPTOR = re.compile(r"\b\d+<([^>]*)>")
_BY_DESCRIPTOR = {
    *("read", "pread64", "write", "close", "ftruncate", "fsync", "fdatasync", "utimensat"),
    *("sync_file_range", "syncfs", "mmap", "fchmod", "getdents64", "fstat"),
}


@dataclass(frozen=True)
class Step:
    """One system call.

    :ivar paths: the files it is about, relative to the repository's working tree; a descriptor's
        file under the name by which it was opened last.
    :ivar arguments: all of them, as strace prints them.
    """

    call: str
    paths: tuple[str, ...]
    arguments: str
    failed: bool

    @property
    def path(self) -> str:
        """The last of the paths: where a rename or link leads to."""
        return self.paths[-1]


def trace(program: Program, output: Path, *arguments: str, stdin: bytes = b"") -> list[Step]:
    """Run a command, which must succeed, and list its calls on files below its directory."""
    wrapper = ("strace", "-f", "-y", "-s", "4096", "-o", str(output), "-e", f"trace={CALLS}")
    done: subprocess.CompletedProcess[bytes] = program.run(*arguments, stdin=stdin, wrapper=wrapper)
    assert done.returncode == 0, done.stderr.decode()
    text = output.read_text(encoding="utf-8", errors="surrogateescape")
    return list(_steps(text, str(program.directory)))


def _steps(text: str, root: str) -> Iterator[Step]:
    for line in text.splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        arguments = match["arguments"]
        call = match["call"]
        if call == "newfstatat":
            call = _kind_of_stat(arguments)
        pattern = _DESCRIPTOR if call in _BY_DESCRIPTOR else _STRING
        paths = tuple(
            os.path.relpath(path.removesuffix(" (deleted)"), root)
            for path in pattern.findall(arguments)
            if path == root or path.startswith(root + "/")
        )
        if paths:
            yield Step(call, paths, arguments, match["result"].startswith("-"))


def _kind_of_stat(arguments: str) -> str:
    if "AT_EMPTY_PATH" in arguments:
        return "fstat"
    return "lstat" if "AT_SYMLINK_NOFOLLOW" in arguments else "stat"
