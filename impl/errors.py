"""Every way in which the store fails: one class each, all of them `StoreError`.

A message says what happened, to what, and what to do next. The command line prints it as git
prints its own (`fatal: …`) and exits with `exit_code`. Modules that own a format define the
classes for its damage beside its codec, as subclasses of `Corrupt`.
"""

from typing import ClassVar


class StoreError(Exception):
    """What the store could not do. Never raised itself, always as one of the classes below."""

    exit_code: ClassVar[int] = 128
    """Of a command that ends with this error: git's 128 for failures, 129 for wrong usage."""


class UsageError(StoreError):
    """The command line was wrong: an unknown command or option, or too many or few arguments."""

    exit_code = 129


class InvalidInput(StoreError):
    """Input (standard input, an argument's content) is not what the command takes."""


class NotARepository(StoreError):
    """No repository was found at, or above, a directory."""


class UnsupportedRepository(StoreError):
    """The repository has a format version or an extension that this store does not know."""


class RepositoryExists(StoreError):
    """`init` would have to change what an existing repository is."""


class InvalidConfiguration(StoreError):
    """A configuration file, or `-c`, cannot be parsed, or a value is not of its kind."""


class LockHeld(StoreError):
    """A lock file exists: another process is at work, or one died and left it behind."""

    def __init__(self, lock: str) -> None:
        """:param lock: the lock file's path."""
        super().__init__(
            f"Unable to create '{lock}': File exists. Another process may be running in this "
            "repository; if none is, one died: remove the file by hand to go on."
        )
        self.lock = lock


class SyncFailed(StoreError):
    """The kernel could not make a file durable: it may or may not be on the disk.

    Nothing is retried: after a failed fsync(2) Linux marks the pages clean, so that a second one
    would succeed without having written anything.
    """


class TransactionFailed(StoreError):
    """An operation within a transaction failed, and its caller went on: nothing is published."""


class Corrupt(StoreError):
    """A file of the repository is not what its format, or its checksum, says."""


class CorruptObject(Corrupt):
    """An object cannot be inflated, parsed, or is not the one that its name says."""


class CorruptIndex(Corrupt):
    """The index (or the shared index that it links to) is damaged."""


class ObjectMissing(StoreError):
    """An object is in neither a loose file nor a pack."""

    def __init__(self, name: str) -> None:
        """:param name: the object's name, in hexadecimal."""
        super().__init__(f"object {name} is not in this repository")
        self.name = name


class InvalidObject(StoreError):
    """Content is not a well-formed object of its type, so it is not stored."""


class InvalidName(StoreError):
    """A name of an object, a reference or a revision is malformed, or names nothing."""


class HostilePath(StoreError):
    """A path would reach outside of the working tree, or into `.git`."""


class MissingPath(StoreError):
    """A pathspec matches no file, neither in the working tree nor in the index."""


class NothingToDo(StoreError):
    """The command has nothing to record (a commit without a change, an empty stash)."""

    exit_code = 1


class Conflict(StoreError):
    """Local changes are in the way, or two changes do not merge."""

    exit_code = 1
