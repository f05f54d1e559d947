"""The stack of tables: what `tables.list` names, oldest first, read as if it were one table."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import merge
from typing import NamedTuple, TypeVar

from impl.durability.port import Port
from impl.objects.hashes import HashAlgorithm
from impl.refs.errors import CorruptReftable, CorruptTableList
from impl.refs.reftable.records import LogRecord, RefRecord
from impl.refs.reftable.source import Counters, open_source
from impl.refs.reftable.table import Table
from impl.refs.watch import WatchedFile

LIST_NAME = "tables.list"
_TABLE_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]*\.ref")
_LIST_BYTES_MAX = 1 << 24
_RELOADS_MAX = 100

Item = TypeVar("Item", RefRecord, LogRecord)


class StackOptions(NamedTuple):
    """Switches for the two optimisations of seed 002, so that their worth can be measured.

    :ivar watch_list: read `tables.list` again only when stat(2) says that it changed.
    :ivar map_tables: map tables, instead of reading every block when it is wanted.
    """

    watch_list: bool = True
    map_tables: bool = True


def options_from(environment: Mapping[str, str]) -> StackOptions:
    """REFGIT_REFTABLE_WATCH=0 and REFGIT_REFTABLE_MAP=0 switch one off each."""
    return StackOptions(
        watch_list=environment.get("REFGIT_REFTABLE_WATCH") != "0",
        map_tables=environment.get("REFGIT_REFTABLE_MAP") != "0",
    )


class Stack:
    """The tables of a repository, as they are now.

    :ivar tables: oldest first; a newer one's records hide an older one's.
    """

    def __init__(
        self, port: Port, directory: str, algorithm: HashAlgorithm, options: StackOptions
    ) -> None:
        """The stack in `directory`; nothing is read yet."""
        self._port = port
        self._directory = directory
        self.algorithm = algorithm
        self._options = options
        self._list = WatchedFile(port, self.list_path, use_cache=options.watch_list)
        self._counters = Counters()
        self.tables: Sequence[Table] = ()

    @property
    def list_path(self) -> str:
        """Of `tables.list`."""
        return f"{self._directory}/{LIST_NAME}"

    def path(self, table: str) -> str:
        """Of a table, from its name."""
        return f"{self._directory}/{table}"

    @property
    def counters(self) -> Counters:
        """What reading has cost so far."""
        self._counters.list_stats = self._list.stats
        self._counters.list_reads = self._list.reads
        return self._counters

    @property
    def next_update_index(self) -> int:
        """The number of the next transaction."""
        return self.tables[-1].header.max_update_index + 1 if self.tables else 1

    def refresh(self) -> None:
        """Take in what others have written. Raises CorruptTableList, CorruptReftable, OSError."""
        if not self._list.refresh():
            return
        complete = False
        try:
            self._reload()
            complete = True
        finally:
            if not complete:
                self._list.forget()

    def close(self) -> None:
        """Release every descriptor and mapping."""
        self._list.forget()
        for table in self.tables:
            table.close()
        self.tables = ()

    def _reload(self) -> None:
        """Open the tables that the list names. One that is gone was compacted away after the list
        was read, so that the list has changed again; else it is lost."""
        for _ in range(_RELOADS_MAX):
            names = parse_table_list(self._list.content, self.list_path)
            if not names:
                self._check_that_none_is_lost()
            lost = self._open_tables(names)
            if lost is None:
                return
            before = self._list.content
            self._list.forget()
            self._list.refresh()
            if self._list.content == before:
                break
        raise CorruptTableList(
            f"{self.list_path} names {lost}, which is not there: restore that file, or remove its "
            "line, which loses the references in it"
        )

    def _open_tables(self, names: Sequence[str]) -> str | None:
        """Make `tables` those of these names; the name of one that is not there instead."""
        known = {table.name: table for table in self.tables}
        opened: list[Table] = []
        complete = False
        try:
            for name in names:
                opened.append(known[name] if name in known else self._open(name))
            check_order(opened, self.algorithm, self.list_path)
            complete = True
        except FileNotFoundError:
            return name
        finally:
            kept = opened if complete else self.tables
            for table in {*opened, *self.tables} - {*kept}:
                table.close()
        self.tables = tuple(opened)
        return None

    def _open(self, name: str) -> Table:
        source = open_source(
            self._port, self.path(name), self._counters, use_mapping=self._options.map_tables
        )
        try:
            return Table(name, source)
        except CorruptReftable:
            source.close()
            raise

    def _check_that_none_is_lost(self) -> None:
        try:
            names = self._port.list_directory(self._directory)
        except FileNotFoundError:
            return
        tables = sorted(name for name in names if _TABLE_NAME.fullmatch(name))
        if tables:
            raise CorruptTableList(
                f"{self.list_path} is empty or missing, but there are tables ({tables[-1]} and "
                f"{len(tables) - 1} more): write their names into it, oldest first, one a line"
            )


def parse_table_list(content: bytes | None, what: str) -> list[str]:
    """The names of the tables, oldest first; none for a list that is not there.

    Raises CorruptTableList for anything but names of tables, each once.
    """
    if not content:
        return []
    names = content.decode("latin-1").removesuffix("\n").split("\n")
    wrong = next((name for name in names if not _TABLE_NAME.fullmatch(name)), None)
    if wrong is not None or len(content) > _LIST_BYTES_MAX:
        raise CorruptTableList(
            f"{what} has a line that is no table's name: {(wrong or '')[:60]!r}; write the names "
            "of the .ref files beside it into it, oldest first, one a line"
        )
    if len(set(names)) != len(names):
        raise CorruptTableList(f"{what} names a table twice: remove one of the lines")
    return names


def encode_table_list(names: Sequence[str]) -> bytes:
    """The content of `tables.list`."""
    return "".join(f"{name}\n" for name in names).encode()


def check_order(tables: Sequence[Table], algorithm: HashAlgorithm, what: str) -> None:
    """Raise CorruptTableList unless every table comes after the one before, in this hash."""
    before = 0
    for table in tables:
        if table.header.algorithm is not algorithm:
            raise CorruptTableList(
                f"{what} names {table.name}, which is of a {table.header.algorithm.name} repository"
            )
        if table.header.min_update_index <= before:
            raise CorruptTableList(f"{what} names {table.name} out of order")
        before = table.header.max_update_index


def find_ref(tables: Sequence[Table], name: bytes) -> RefRecord | None:
    """The newest record of a reference; None if it was deleted, or never was."""
    for table in reversed(tables):
        record = table.ref(name)
        if record is not None:
            return None if record.is_deletion else record
    return None


def merged_refs(
    tables: Sequence[Table], start: bytes = b"", *, with_deletions: bool = False
) -> Iterator[RefRecord]:
    """The newest record of every reference from `start` on, sorted by name."""
    for record in _newest([table.refs_from(start) for table in tables], lambda ref: ref.name):
        if with_deletions or not record.is_deletion:
            yield record


def merged_logs(
    tables: Sequence[Table], start: bytes = b"", *, with_deletions: bool = False
) -> Iterator[LogRecord]:
    """Every reflog entry of references from `start` on, sorted by name, then newest first."""
    for record in _newest([table.logs_from(start) for table in tables], lambda log: log.key):
        if with_deletions or record.change is not None:
            yield record


def logs_of(tables: Sequence[Table], name: bytes) -> list[LogRecord]:
    """The reflog entries of one reference, newest first."""
    records = _newest([table.logs_of(name) for table in tables], lambda log: log.key)
    return [record for record in records if record.change is not None]


def _newest(streams: Sequence[Iterator[Item]], key: Callable[[Item], bytes]) -> Iterator[Item]:
    """Merge sorted streams, oldest first; of equal keys, the newest stream's is kept."""
    if len(streams) == 1:
        yield from streams[0]
        return

    def ranked(number: int, stream: Iterator[Item]) -> Iterator[tuple[bytes, int, Item]]:
        for item in stream:
            yield key(item), -number, item

    before = None
    for name, _, item in merge(*(ranked(number, stream) for number, stream in enumerate(streams))):
        if name != before:
            before = name
            yield item
