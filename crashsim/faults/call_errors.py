"""Which errors a system call may return that say nothing of what is there.

From the man pages (section 2 of the Linux man-pages), call by call. Left out are

- answers: ENOENT, EEXIST, ENOTDIR, EISDIR, ENOTEMPTY, ELOOP. To invent one of them is to lie about
  the files, and no program could tell.
- errors of the program itself: EFAULT, EBADF, EINVAL of arguments, ENAMETOOLONG.
- EINTR: Python repeats the call (PEP 475), and so does the reference store where it calls libc.

EIO is added to every call that may have to read or write the disk, whether its page lists it
("various filesystem errors may also occur").
"""

import errno
from collections.abc import Mapping
from types import MappingProxyType

_LOOKUP = ("EACCES", "EIO", "ENOMEM")
_DESCRIPTORS = ("EMFILE", "ENFILE")
_SPACE = ("ENOSPC", "EDQUOT")
_CHANGE = (*_LOOKUP, "EPERM", "EROFS")
_NEW_NAME = (*_CHANGE, *_SPACE)
_WRITEBACK = ("EIO", *_SPACE)

_NAMES: Mapping[str, tuple[str, ...]] = {
    "open": (*_NEW_NAME, *_DESCRIPTORS),
    "close": _WRITEBACK,
    "read": ("EIO",),
    "pread": ("EIO",),
    "write": (*_WRITEBACK, "EFBIG", "EPERM"),
    "truncate": ("EIO", "EFBIG", "EPERM"),
    "map": ("EACCES", "EAGAIN", "ENFILE", "ENODEV", "ENOMEM", "EPERM"),
    "stat": _LOOKUP,
    "lstat": _LOOKUP,
    "fstat": ("EIO", "ENOMEM"),
    "set_times": ("EACCES", "EIO", "EPERM", "EROFS"),
    "change_mode": ("EIO", "EPERM", "EROFS"),
    "list_directory": (*_LOOKUP, *_DESCRIPTORS),
    "make_directory": (*_NEW_NAME, "EMLINK"),
    "remove_directory": (*_CHANGE, "EBUSY"),
    "rename": (*_NEW_NAME, "EBUSY", "EMLINK", "EXDEV"),
    "link": (*_NEW_NAME, "EMLINK", "EXDEV"),
    "unlink": (*_CHANGE, "EBUSY"),
    "symlink": _NEW_NAME,
    "read_link": _LOOKUP,
    "fsync": (*_WRITEBACK, "EINVAL", "EROFS"),
    "fdatasync": (*_WRITEBACK, "EINVAL", "EROFS"),
    "sync_file_range": (*_WRITEBACK, "ENOMEM"),
    "sync_filesystem": _WRITEBACK,
}

ERRORS: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {call: tuple(getattr(errno, name) for name in names) for call, names in _NAMES.items()}
)
"""Call (as the store's port has it) -> the errnos that it may fail with."""

SHORT = frozenset({"read", "pread", "write"})
"""Calls that may do less than they are asked for, without any error."""
