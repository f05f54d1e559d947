"""The index: which content of which path is to be committed. Read, changed, and written whole.

An index that is to be changed is locked first, as git does (`index.lock`), then read; storing it
stages the lock file in the transaction, which publishes it.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from impl.durability.components import Component
from impl.durability.port import map_file, write_all
from impl.errors import Corrupt, CorruptIndex
from impl.index_entry import IndexEntry
from impl.index_format import ParsedIndex, format_index, parse_index
from impl.index_trees import CachedTree
from impl.worktree import WorkTree

if TYPE_CHECKING:
    from impl.durability.staged import Staged
    from impl.repository import Repository

DEFAULT_VERSION = 2


class Index:
    """The entries of an index.

    :ivar version: of the file that it was read from, and will be written as.
    :ivar trees: the object names of directories that have not changed since they were written.
    :ivar written_ns: when the file was written, in nanoseconds since the epoch; 0 if never.
    :ivar changed: whether anything differs from the file.
    """

    def __init__(self, parsed: ParsedIndex | None = None, written_ns: int = 0) -> None:
        """Of what was read, or empty."""
        self.version = DEFAULT_VERSION if parsed is None else parsed.version
        self.resolve_undo = b"" if parsed is None else parsed.resolve_undo
        self.trees = (parsed.trees if parsed is not None else None) or CachedTree()
        self.written_ns = written_ns
        self.changed = False
        entries = () if parsed is None else parsed.entries
        self._entries = {entry.key: entry for entry in entries}
        self._directories: dict[bytes, int] | None = None
        written = divmod(written_ns, 10**9)
        self._racy = {entry.key for entry in entries if _modified(entry) >= written > (0, 0)}

    def __len__(self) -> int:
        """How many entries there are, of all stages."""
        return len(self._entries)

    def __iter__(self) -> Iterator[IndexEntry]:
        """The entries in the index' order."""
        return iter([self._entries[key] for key in sorted(self._entries)])

    def get(self, path: bytes, stage: int = 0) -> IndexEntry | None:
        """The entry of a path, if there is one."""
        return self._entries.get((path, stage))

    def has_path(self, path: bytes) -> bool:
        """Whether there is an entry of any stage."""
        return any((path, stage) in self._entries for stage in range(4))

    def is_racy(self, entry: IndexEntry) -> bool:
        """Whether the file may have changed after it was compared without its inode showing it:
        it was written no earlier than the index (git's "racy git" problem)."""
        return entry.key in self._racy

    def racy_entries(self) -> list[IndexEntry]:
        """The entries in doubt that nothing in this process has compared yet."""
        return [self._entries[key] for key in sorted(self._racy) if key in self._entries]

    def conflicts(self) -> list[bytes]:
        """The paths that have not been merged."""
        return sorted({path for path, stage in self._entries if stage})

    def under(self, directory: bytes) -> list[IndexEntry]:
        """The entries below a directory; all of them for the empty path."""
        prefix = directory + b"/" if directory else b""
        return [entry for entry in self if entry.path.startswith(prefix)]

    def is_directory(self, path: bytes) -> bool:
        """Whether there are entries below the path."""
        return path in self._directory_counts()

    def add(self, entry: IndexEntry) -> None:
        """Put in an entry, in place of all that it excludes: other stages, a file in place of
        one of its directories, the files of a directory in its place."""
        self._racy.discard(entry.key)
        if self._entries.get(entry.key) == entry:
            return
        known = self._entries.get(entry.key)
        if entry.stage == 0:
            self._remove_excluded(entry.path)
        self._put(entry)
        self.changed = True
        if known is None or (known.mode, known.object_name) != (entry.mode, entry.object_name):
            self.trees.invalidate(entry.path)

    def _remove_excluded(self, path: bytes) -> None:
        for stage in (1, 2, 3):
            self._drop((path, stage))
        if path in self._directory_counts():
            for entry in self.under(path):
                self._drop(entry.key)
        position = path.find(b"/")
        while position >= 0:
            self.remove(path[:position])
            position = path.find(b"/", position + 1)

    def remove(self, path: bytes) -> bool:
        """Take a path out, in all stages; whether it was there."""
        there = [self._drop((path, stage)) for stage in range(4)]
        return any(there)

    def _put(self, entry: IndexEntry) -> None:
        if entry.key not in self._entries and self._directories is not None:
            for directory in _directories(entry.path):
                self._directories[directory] = self._directories.get(directory, 0) + 1
        self._entries[entry.key] = entry

    def _drop(self, key: tuple[bytes, int]) -> bool:
        if self._entries.pop(key, None) is None:
            return False
        self.changed = True
        self.trees.invalidate(key[0])
        if self._directories is not None:
            for directory in _directories(key[0]):
                self._directories[directory] -= 1
                if not self._directories[directory]:
                    del self._directories[directory]
        return True

    def replace(self, entries: Iterable[IndexEntry]) -> None:
        """Make these the entries, all others gone."""
        self._entries = {entry.key: entry for entry in entries}
        self._directories = None
        self._racy.clear()
        self.trees = CachedTree()
        self.changed = True

    def _directory_counts(self) -> dict[bytes, int]:
        """Directory -> how many entries are below it; counted when first needed."""
        if self._directories is None:
            self._directories = {}
            for path, _ in self._entries:
                for directory in _directories(path):
                    self._directories[directory] = self._directories.get(directory, 0) + 1
        return self._directories


def _modified(entry: IndexEntry) -> tuple[int, int]:
    return entry.stat.modified_seconds, entry.stat.modified_nanoseconds


def _directories(path: bytes) -> list[bytes]:
    parts = path.split(b"/")
    return [b"/".join(parts[:count]) for count in range(1, len(parts))]


def read_index(repository: "Repository") -> Index:
    """The index as it is, or as the open transaction will make it; empty if there is no file.

    Raises CorruptIndex, saying what to do about it.
    """
    path = repository.index_path
    transaction = repository.open_transaction
    now = path if transaction is None else transaction.current(path)
    try:
        written_ns = repository.port.stat(now).st_mtime_ns
        data = map_file(repository.port, now)
    except FileNotFoundError:
        return Index()
    try:
        skip_hash = skips_hash(repository)
        parsed = parse_index(data, repository.algorithm, path, skip_hash=skip_hash)
        if parsed.link is not None and parsed.link.base:
            parsed = _with_shared(repository, parsed)
    except Corrupt as error:
        raise CorruptIndex(
            f"{error}. The commits are not affected: remove {path}, and `reset` makes it anew"
        ) from error
    return Index(parsed, written_ns)


def skips_hash(repository: "Repository") -> bool:
    """Whether indexes are written without a checksum. See git-config(1), feature.manyFiles."""
    config = repository.config
    return config.boolean("index.skiphash", config.boolean("feature.manyfiles", False))


def _with_shared(repository: "Repository", parsed: ParsedIndex) -> ParsedIndex:
    from impl.index_split import merge_split

    assert parsed.link is not None
    path = f"{repository.git_directory}/sharedindex.{parsed.link.base}"
    try:
        data = map_file(repository.port, path)
    except FileNotFoundError:
        raise CorruptIndex(f"the shared index {path} is missing") from None
    skip_hash = skips_hash(repository)
    shared = parse_index(data, repository.algorithm, path, skip_hash=skip_hash)
    size = repository.algorithm.size_bytes
    if bytes(data[-size:]).hex() != parsed.link.base:
        raise CorruptIndex(f"the shared index {path} is another one than its name says")
    entries = merge_split(shared.entries, parsed.entries, parsed.link, repository.index_path)
    return parsed._replace(entries=entries, link=None)


class LockedIndex:
    """The index while this process alone may change it, within a transaction.

    :ivar index: what is in it; changes are kept by `store`.
    """

    def __init__(self, repository: "Repository") -> None:
        """Lock and read. Raises LockHeld, CorruptIndex."""
        transaction = repository.open_transaction
        if transaction is None:
            raise RuntimeError("an index is locked within a transaction")
        self._repository = repository
        self._transaction = transaction
        path = repository.index_path
        # What this very transaction has staged must be read before it is opened for writing.
        self._was_staged = transaction.current(path) != path
        before = read_index(repository) if self._was_staged else None
        self._lock: Staged = transaction.lock(Component.INDEX, path)
        self.index = before if before is not None else read_index(repository)

    def store(self, *, even_if_unchanged: bool = False) -> bool:
        """Stage the index, or give the lock back if nothing has changed; whether it was staged."""
        index = self.index
        if not (index.changed or even_if_unchanged or self._was_staged):
            self._transaction.discard(self._lock)
            return False
        self._transaction.settle()
        if self._repository.work_tree is not None:
            WorkTree(self._repository).forget_racy(index)
        config = self._repository.config
        version = config.integer("index.version", index.version)
        content = format_index(
            list(index),
            self._repository.algorithm,
            version=version if version in (2, 3, 4) else DEFAULT_VERSION,
            trees=index.trees if index.trees.is_valid or index.trees.children else None,
            resolve_undo=index.resolve_undo,
            skip_hash=skips_hash(self._repository),
        )
        write_all(self._repository.port, self._lock.descriptor, content)
        self._transaction.stage(self._lock)
        return True

    def give_back(self) -> None:
        """Keep no change; but what this transaction had staged before is staged again."""
        if self._was_staged:
            self.store()
        else:
            self._transaction.discard(self._lock)
