"""Loose references: one small file each, below the repository's directory."""

import errno
import os
import stat
from typing import NamedTuple

from impl.durability.port import Port
from impl.objects.hashes import HashAlgorithm
from impl.refs.errors import CorruptReference
from impl.refs.names import is_root, is_well_formed, printable
from impl.refs.values import Symbolic, Value

_BYTES_MAX = 1 << 13
_SPACE = b" \t\n\r"
"""What git takes for white space."""

_SYMBOLIC = b"ref:"


class Loose(NamedTuple):
    """What is at a loose reference's path.

    :ivar value: the reference; None if there is none.
    :ivar is_directory: a directory is in its place.
    """

    value: Value | None
    is_directory: bool = False


NOTHING = Loose(None)


def read_loose(port: Port, path: str, name: str, algorithm: HashAlgorithm) -> Loose:
    """Read one loose reference. Raises CorruptReference for a file that is none, and OSError.

    A symbolic link to a reference's name is a symbolic reference, as in early repositories; no
    other link is followed.
    """
    try:
        descriptor = port.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except (FileNotFoundError, NotADirectoryError):
        return NOTHING
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        return Loose(_symbolic(port.read_link(path), name))
    try:
        content = port.read(descriptor, _BYTES_MAX)
    except IsADirectoryError:
        return Loose(None, is_directory=True)
    finally:
        port.close(descriptor)
    return Loose(parse_loose(content, name, algorithm))


def parse_loose(content: bytes, name: str, algorithm: HashAlgorithm) -> Value:
    """The value in a loose reference's file. Raises CorruptReference."""
    if content.startswith(_SYMBOLIC):
        return _symbolic(os.fsdecode(content[len(_SYMBOLIC) :].strip(_SPACE)), name)
    text = content.rstrip(_SPACE).decode("latin-1")
    if not algorithm.is_name(text):
        problem = "is empty" if not content else f"is no object name: {content[:60]!r}"
        raise CorruptReference(
            f"the reference {printable(name)} {problem}; take its value from its reflog, and set "
            f"it with update-ref --no-deref after removing the file"
        )
    return text


def encode_loose(value: Value) -> bytes:
    """The content of a loose reference's file."""
    if isinstance(value, Symbolic):
        return b"ref: " + os.fsencode(value.target) + b"\n"
    return value.encode() + b"\n"


def _symbolic(target: str, name: str) -> Symbolic:
    if not (is_root(target) or (target.startswith("refs/") and is_well_formed(target))):
        raise CorruptReference(
            f"the symbolic reference {printable(name)} points to '{printable(target[:200])}', "
            "which is no reference's name: set it with symbolic-ref"
        )
    return Symbolic(target)


def loose_names(port: Port, git_directory: str, prefix: str) -> list[str]:
    """The names of everything below `refs/` that may be a loose reference and starts with `prefix`.

    Locks and hidden files are left out. Raises OSError.
    """
    found: list[str] = []
    top = prefix[: prefix.rfind("/")] if "/" in prefix else "refs"
    pending = [top]
    while pending:
        directory = pending.pop()
        try:
            names = port.list_directory(f"{git_directory}/{directory}")
        except FileNotFoundError:
            continue
        except NotADirectoryError:
            found.append(directory)
            continue
        for name in names:
            if name.startswith(".") or name.endswith(".lock"):
                continue
            full = f"{directory}/{name}"
            if full.startswith(prefix) or prefix.startswith(f"{full}/"):
                is_directory = stat.S_ISDIR(port.lstat(f"{git_directory}/{full}").st_mode)
                (pending if is_directory else found).append(full)
    return found


def remove_empty_directories(port: Port, path: str) -> bool:
    """Remove a directory in a new reference's place, if nothing but directories is below it.

    Returns whether it is gone. Raises OSError.
    """
    try:
        names = port.list_directory(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    for name in names:
        if not remove_empty_directories(port, f"{path}/{name}"):
            return False
    try:
        port.remove_directory(path)
    except (FileNotFoundError, NotADirectoryError):
        return not names
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return False
    return True
