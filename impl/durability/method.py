"""The fsync methods' protocol: how one is written, and what it is given.

A method decides *how* a transaction's files become durable: when which of them is synced, and
where they wait until then. What is to be synced is the policy's choice (`core.fsync`); in which
order files appear is the transaction's. A method is one class, derived from `FsyncMethod`; it
overrides the hooks that it needs. One instance serves one transaction, which calls

1. `home` for every temporary file that is made, `staged` once it is complete;
2. at the transaction's end, for each phase (objects, index, references):
   `publishing` before its first file appears, `published` after its last;
3. `removing` before anything is unlinked, `removed` after;
4. or `aborted`, after the temporaries are gone, if anything failed;

and before its end `restored`, where files of the working tree are what is left of something that
goes.

A method states in `guarantee` what holds after a crash, for each filesystem family, when every
component is synced (`core.fsync=all`). The property tests hold it to exactly that.
"""

import errno
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import ClassVar, Protocol

from impl.durability.components import Component, Phase
from impl.durability.names import Names, try_each
from impl.durability.policy import Policy
from impl.durability.port import WRITE_OUT, Port
from impl.errors import SyncFailed

PROPERTIES = ("recoverable", "intact", "durable", "atomic", "usable")
"""What may hold after a crash: it opens; what is there is whole; promises hold; each transaction
is wholly there or not at all; one can go on."""

Guarantee = Mapping[str, frozenset[str]]
"""Filesystem family (`ext4`, `xfs`, `btrfs`, `f2fs`; `posix`: one that keeps the standard and no
more) -> the properties that hold on it."""

FAMILIES = ("ext4", "xfs", "btrfs", "f2fs")

ALL_PROPERTIES = frozenset(PROPERTIES)


def guaranteed(*properties: str, on: Sequence[str] = FAMILIES) -> dict[str, frozenset[str]]:
    """The same properties on each of the families. Combine several with `|`."""
    unknown = set(properties) - ALL_PROPERTIES
    if unknown:
        raise ValueError(f"no such properties: {sorted(unknown)}; known: {PROPERTIES}")
    return dict.fromkeys(on, frozenset(properties))


ON_ONE_JOURNAL: Guarantee = (
    guaranteed("recoverable", "intact", on=("ext4",))
    | guaranteed("recoverable", "intact", "usable", on=("xfs",))
    | guaranteed("recoverable", on=("btrfs", "f2fs"))
)
"""Of the methods that sync files and no names. One journal keeps names in their order (ext4, xfs).
btrfs and f2fs make one file's fsync durable by itself, ahead of what came before it: `repack`
names a pack and removes the loose objects, a later command syncs another file in the same
directories, and after a crash the removals are there and the pack's name is not."""

WHERE_GIT_NAMES_IT: Guarantee = {
    **ON_ONE_JOURNAL,
    **guaranteed("recoverable", "intact", on=("ntfs",)),
    **guaranteed("recoverable", "intact", "usable", on=("apfs",)),
}
"""With the two filesystems for which git-config(1) calls `batch` as safe as `fsync`. Their log can
be ahead of data that was written out and not flushed: what the one flush of `batch` is for."""

_NO_WRITEOUT = (errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL, errno.ESPIPE)
"""sync_file_range(2)'s errors where there is no such call, for this kind of file."""


class StagedFile(Protocol):
    """What a method sees of a file.

    :ivar component: what kind of file it is.
    :ivar temporary: its path now.
    :ivar final: its path once it is published.
    :ivar descriptor: open while `staged` runs; closed by the transaction right after.
    :ivar bulk: one of many of its kind; False for what git writes outside of its object
        transactions (commit objects, tags).
    """

    @property
    def component(self) -> Component: ...  # noqa: D102
    @property
    def temporary(self) -> str: ...  # noqa: D102
    @property
    def final(self) -> str: ...  # noqa: D102
    @property
    def descriptor(self) -> int: ...  # noqa: D102
    @property
    def bulk(self) -> bool: ...  # noqa: D102


class Surroundings(Protocol):
    """What a transaction offers its method.

    :ivar port: the door to the operating system.
    :ivar policy: what is to be synced.
    :ivar git_directory: the repository's directory.
    :ivar names: makes unused names, and knows the directories that were created.
    """

    @property
    def port(self) -> Port: ...  # noqa: D102
    @property
    def policy(self) -> Policy: ...  # noqa: D102
    @property
    def git_directory(self) -> str: ...  # noqa: D102
    @property
    def names(self) -> Names: ...  # noqa: D102

    def open_lock(self, component: Component) -> int | None:
        """The descriptor of a lock of this kind that is held and not yet staged, if any."""


class FsyncMethod:
    """The base of all methods: hooks that do nothing, and the primitives to sync with.

    Hooks may raise SyncFailed (the primitives do) or OSError: the transaction then aborts.
    """

    name: ClassVar[str]
    """As in `core.fsyncMethod`."""

    guarantee: ClassVar[Guarantee]
    """What holds after a crash under `core.fsync=all`, by filesystem family."""

    appends_in_place: ClassVar[bool] = True
    """Whether a reflog's new line is appended to the file, as git does. False: the transaction
    writes the whole log anew beside it, and stages that."""

    covers_state: ClassVar[bool] = False
    """Whether reflogs and state files (HEAD as a symbolic reference, config) are synced where
    references are. git never syncs them, so its own methods do not."""

    atomic_references: ClassVar[bool] = False
    """Whether several references of one transaction appear at once. With a file for each they
    cannot: True has them written to `packed-refs`, which takes one more transaction where one of
    them has a file of its own."""

    objects_first: ClassVar[bool] = False
    """Whether the objects staged so far appear before the index, a commit or a tag is written, as
    git ends its object transaction. False: all files of a transaction appear together."""

    def __init__(self, surroundings: Surroundings) -> None:
        """For one transaction."""
        self.surroundings = surroundings
        self.port = surroundings.port

    def home(self, component: Component, final: str, bulk: bool) -> str:
        """The path under which the complete file waits to be published.

        `final` itself: it waits under a temporary name in the directory of `final`. Another path:
        it is linked to that (a quarantine) once staged, and moved to `final` when published.
        """
        return final

    def staged(self, file: StagedFile) -> bool:
        """A file is complete, its descriptor still open. True: make it visible at once."""
        return False

    def publishing(self, phase: Phase, files: Sequence[StagedFile]) -> None:
        """The files of a phase (perhaps none) are about to appear under their final names."""

    def published(self, phase: Phase, files: Sequence[StagedFile]) -> None:
        """The files of a phase (perhaps none) have appeared."""

    def removing(self, paths: Sequence[str]) -> None:
        """All is visible. The paths (perhaps none) are about to be unlinked."""

    def removed(self, promised: Sequence[str]) -> None:
        """All is unlinked; of these paths (perhaps none) the absence itself is a promise."""

    def restored(self, root: str, paths: Sequence[bytes]) -> None:
        """Files of the working tree below `root` were written, and what they came from (a stash)
        is about to go. Some of them may have been removed."""

    def aborted(self) -> None:
        """The transaction failed; its temporary files are gone already. May raise OSError."""

    # What the hooks are written with.

    def wants(self, component: Component) -> bool:
        """Whether the policy has files of this kind made durable."""
        if self.covers_state and component in (Component.REFLOG, Component.OTHER):
            component = Component.REFERENCE
        return self.surroundings.policy.wants(component)

    def flush(self, descriptor: int) -> None:
        """fsync(2): the file's content and metadata, and the device's cache. Raises SyncFailed."""
        try:
            self.port.fsync(descriptor)
        except OSError as error:
            raise SyncFailed(_sync_message("fsync", error)) from error

    def write_out(self, descriptor: int) -> None:
        """Have the file's pages written, without metadata or a device flush; else `flush`.

        Raises SyncFailed. Only a filesystem that has no such call is helped with fsync(2): after
        an error the pages are clean, and the descriptor's error has been told, so that an fsync(2)
        would return 0 (Linux, fs/sync.c: sync_file_range waits by file_fdatawait_range).
        """
        try:
            self.port.sync_file_range(descriptor, 0, 0, WRITE_OUT)
        except OSError as error:
            if error.errno not in _NO_WRITEOUT:
                raise SyncFailed(_sync_message("sync_file_range", error)) from error
            self.flush(descriptor)

    def flush_path(self, path: str) -> None:
        """`flush` of a file or directory by name: an inode's pages belong to no descriptor."""
        with self._closing(self.port.open(path, os.O_RDONLY)) as descriptor:
            self.flush(descriptor)

    def flush_dummy(self, directory: str) -> None:
        """Flush an empty file: on a filesystem with one journal that carries the rest along."""
        prefix = f"{directory}/bulk_fsync_"
        path, descriptor = self.surroundings.names.create_unused(prefix, 0o600)
        try:
            with self._closing(descriptor):
                self.flush(descriptor)
        except BaseException:
            try_each(self.port.unlink, [path])
            raise
        self.port.unlink(path)

    def sync_filesystem(self, directory: str = "") -> None:
        """syncfs(2): all that anybody wrote to one filesystem. Raises SyncFailed.

        :param directory: one of the filesystem that is meant; the repository's own by default.
            Where the repository is spread over several, nothing is synced of the others.
        """
        directory = directory or self.surroundings.git_directory
        flags = os.O_RDONLY | os.O_DIRECTORY
        with self._closing(self.port.open(directory, flags)) as descriptor:
            try:
                self.port.sync_filesystem(descriptor)
            except OSError as error:
                raise SyncFailed(_sync_message("syncfs", error)) from error

    @contextmanager
    def _closing(self, descriptor: int) -> Iterator[int]:
        """Close it after the block. The block's own error is the one to be told, not close's."""
        try:
            yield descriptor
        except BaseException:
            try_each(self.port.close, [descriptor])
            raise
        self.port.close(descriptor)


def _sync_message(call: str, error: OSError) -> str:
    return (
        f"{call} of {error.filename} failed: {error.strerror}. Nothing more was published; check "
        "the disk, then repeat"
    )
