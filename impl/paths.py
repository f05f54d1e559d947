"""Which paths may be in an index, a tree, or be written to a working tree. No I/O.

A path that leads out of the working tree, or into the repository's own directory under one of its
disguises, can run code on the machine that checks it out. Sources: git's core.protectNTFS and
core.protectHFS (git-config(1)), which this store never turns off; CVE-2014-9390, CVE-2019-1352.
"""

import os
import re

from impl.errors import HostilePath

_IGNORED_BY_HFS = "[\u200c\u200d\u200e\u200f\u202a-\u202e\u206a-\u206f\ufeff]"
"""Code points that HFS+ leaves out when it compares names."""

_NTFS_DOT_GIT = rb"(?is)(?:\.git|git~1)[ .]*(?::.*)?"
"""`.git` as NTFS reads it: its short name, with dots and spaces at its end, or a stream's name."""


def check_path(path: bytes) -> None:
    """Raise HostilePath for a path that must not be tracked: absolute, `..`, `.git`, a NUL, …"""
    if not path or path.startswith(b"/") or b"\0" in path:
        raise HostilePath(f"invalid path '{printable(path)}': it must be relative, and not empty")
    for component in path.split(b"/"):
        if component in (b"", b".", b".."):
            raise HostilePath(f"invalid path '{printable(path)}': '.' and '..' cannot be tracked")
        if is_dot_git(component):
            raise HostilePath(f"invalid path '{printable(path)}': it leads into the repository")


def is_dot_git(component: bytes) -> bool:
    """Whether some filesystem would take the name for `.git`, or for a path into it."""
    if component.isascii() and b"git" not in component.lower():
        return False
    if any(re.fullmatch(_NTFS_DOT_GIT, piece) for piece in component.split(b"\\")):
        return True
    try:
        text = component.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return re.sub(_IGNORED_BY_HFS, "", text).lower() == ".git"


def relative_path(root: str, path: str) -> bytes:
    """A path below the working tree's root, as the index has it; empty for the root itself.

    Raises HostilePath for what is outside, or in the repository.
    """
    normal = os.path.normpath(path)
    if normal == root:
        return b""
    prefix = root if root.endswith("/") else root + "/"
    if not normal.startswith(prefix):
        raise HostilePath(f"'{path}' is outside repository at '{root}'")
    relative = os.fsencode(normal[len(prefix) :])
    check_path(relative)
    return relative


def printable(path: bytes) -> str:
    """The path for a message: one line without control characters."""
    return path.decode("utf-8", "backslashreplace").encode("unicode_escape").decode("ascii")


_QUOTED = {
    ord("\a"): "\\a",
    ord("\b"): "\\b",
    ord("\t"): "\\t",
    ord("\n"): "\\n",
    ord("\v"): "\\v",
    ord("\f"): "\\f",
    ord("\r"): "\\r",
    ord('"'): '\\"',
    ord("\\"): "\\\\",
}


def quoted(path: bytes) -> str:
    """The path as git prints it: in C quotes if it has bytes that are not plain."""
    if all(32 <= byte < 127 and byte not in _QUOTED for byte in path):
        return path.decode("ascii")
    shown = (
        _QUOTED.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}") for byte in path
    )
    return '"' + "".join(shown) + '"'


_UNQUOTED = {value[1]: key for key, value in _QUOTED.items()}


def unquoted(line: bytes) -> bytes:
    """A path from a line of input, in C quotes or not. Raises ValueError for wrong quotes."""
    if not line.startswith(b'"'):
        return line
    if len(line) < 2 or not line.endswith(b'"'):
        raise ValueError("a quoted path has no closing quote")

    def byte(match: re.Match[bytes]) -> bytes:
        escape = match[1].decode("latin-1")
        if escape.isdigit():
            return bytes([int(escape, 8) & 0xFF])
        if escape not in _UNQUOTED:
            raise ValueError(f"a quoted path has an unknown escape '\\{escape}'")
        return bytes([_UNQUOTED[escape]])

    return re.sub(rb"\\([0-3][0-7]{2}|.|$)", byte, line[1:-1], flags=re.DOTALL)
