"""The stack of tables: what is read again and when, lost and stale tables, compaction's locks."""

import errno
import os
from pathlib import Path

import pytest

from impl.context import Context
from impl.durability.port import Bytes, OsPort
from impl.errors import LockHeld
from impl.porcelain import pack_refs
from impl.refs.errors import CorruptReftable, CorruptTableList
from impl.refs.reftable.compaction import tables_to_merge, weight
from impl.refs.reftable.compactor import compact_if_uneven
from impl.refs.reftable.stack import Stack, StackOptions, options_from
from impl.refs.reftable.store import ReftableStore
from impl.refs.values import create, write
from tests.support.refs_repository import WHO, RefsRepository


class CountingPort(OsPort):
    """Counts descriptors and calls; refuses to map if told so."""

    def __init__(self, *, can_map: bool = True) -> None:
        self.can_map = can_map
        self.open_descriptors = 0
        self.calls: list[tuple[str, str]] = []

    def open(self, path: str, flags: int, mode: int = 0o666) -> int:
        descriptor = super().open(path, flags, mode)
        self.open_descriptors += 1
        self.calls.append(("open", path))
        return descriptor

    def close(self, descriptor: int) -> None:
        self.open_descriptors -= 1
        super().close(descriptor)

    def rename(self, source: str, target: str) -> None:
        self.calls.append(("rename", target))
        super().rename(source, target)

    def unlink(self, path: str) -> None:
        self.calls.append(("unlink", path))
        super().unlink(path)

    def map(self, descriptor: int, length: int) -> Bytes:
        if not self.can_map:
            raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))
        return super().map(descriptor, length)


@pytest.fixture
def refs(tmp_path: Path) -> RefsRepository:
    return RefsRepository(tmp_path / "repo", "reftable", port=CountingPort())


def stack_of(refs: RefsRepository, port: OsPort | None = None, **options: bool) -> Stack:
    directory = str(refs.git_directory / "reftable")
    algorithm = refs.repository.algorithm
    return Stack(port or refs.port, directory, algorithm, StackOptions(**options))


def fill(refs: RefsRepository, count: int, prefix: str = "b") -> None:
    names = (f"refs/heads/{prefix}/{number:05}" for number in range(count))
    refs.apply(*(create(name, refs.commits[0]) for name in names))


def test_the_list_is_read_once_and_tables_need_no_descriptor(refs: RefsRepository) -> None:
    fill(refs, 300)
    port = CountingPort()
    stack = stack_of(refs, port)
    for _ in range(100):
        stack.refresh()
        assert sum(1 for table in stack.tables for _ in table.refs_from()) > 300
    assert stack.counters.list_reads == 1
    assert stack.counters.table_opens == len(stack.tables)
    assert stack.counters.table_reads == 0
    assert port.open_descriptors == 1
    stack.close()
    assert port.open_descriptors == 0


def test_both_optimisations_can_be_switched_off(refs: RefsRepository) -> None:
    fill(refs, 300)
    port = CountingPort()
    stack = stack_of(refs, port, watch_list=False, map_tables=False)
    for _ in range(100):
        stack.refresh()
        assert any(table.ref(b"refs/heads/b/00007") for table in stack.tables)
    assert stack.counters.list_reads == 100
    assert stack.counters.table_reads >= 100
    assert stack.counters.table_opens == len(stack.tables)
    stack.close()
    assert port.open_descriptors == 0


def test_switches_come_from_the_environment() -> None:
    assert options_from({}) == StackOptions()
    assert options_from({"REFGIT_REFTABLE_WATCH": "0", "REFGIT_REFTABLE_MAP": "0"}) == (
        False,
        False,
    )


def test_where_nothing_can_be_mapped_tables_are_read_whole(refs: RefsRepository) -> None:
    fill(refs, 300)
    port = CountingPort(can_map=False)
    stack = stack_of(refs, port)
    stack.refresh()
    reads = stack.counters.table_reads
    assert reads == len(stack.tables)
    assert any(table.ref(b"refs/heads/b/00007") for table in stack.tables)
    assert stack.counters.table_reads == reads
    assert port.open_descriptors == 1


def test_tables_that_stay_are_not_opened_again(refs: RefsRepository) -> None:
    fill(refs, 300)
    stack = stack_of(refs)
    stack.refresh()
    before = stack.tables
    refs.apply(create("refs/heads/new", refs.commits[0]))
    stack.refresh()
    assert stack.tables[: len(before)] == before
    assert stack.counters.table_opens == len(stack.tables)


def test_after_a_failed_reload_the_list_is_read_again(refs: RefsRepository) -> None:
    fill(refs, 300)
    stack = stack_of(refs)
    stack.refresh()
    path = refs.git_directory / "reftable" / "tables.list"
    good, lost = path.read_bytes(), b"0x000000000fff-0x000000000fff-00000000.ref\n"
    path.with_suffix(".new").write_bytes(good + lost)
    path.with_suffix(".new").rename(path)
    for _ in range(2):
        with pytest.raises(CorruptTableList, match=r"0fff-00000000\.ref, which is not there"):
            stack.refresh()
    path.with_suffix(".new").write_bytes(good)
    path.with_suffix(".new").rename(path)
    stack.refresh()
    assert any(table.ref(b"refs/heads/b/00007") for table in stack.tables)


def test_a_table_that_is_compacted_away_while_the_list_is_read(refs: RefsRepository) -> None:
    for number in range(3):
        fill(refs, 100 // (number + 1) ** 3, f"x{number}")
    assert len(stack_names(refs)) > 1

    class Racing(CountingPort):
        """Packs all tables just before the first of them is opened."""

        def open(self, path: str, flags: int, mode: int = 0o666) -> int:
            if path.endswith(".ref") and not self.calls[1:]:
                refs.pack()
            return super().open(path, flags, mode)

    stack = stack_of(refs, Racing())
    stack.refresh()
    assert [table.name for table in stack.tables] == stack_names(refs)


def stack_names(refs: RefsRepository) -> list[str]:
    return (refs.git_directory / "reftable" / "tables.list").read_text().splitlines()


@pytest.mark.parametrize("content", [b"", None])
def test_an_empty_list_beside_tables_is_a_loss_and_no_new_repository(
    refs: RefsRepository, content: bytes | None
) -> None:
    path = refs.git_directory / "reftable" / "tables.list"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CorruptTableList, match="is empty or missing, but there are tables"):
        stack_of(refs).refresh()


def test_tables_out_of_order_and_of_another_hash(refs: RefsRepository, tmp_path: Path) -> None:
    fill(refs, 300)
    refs.apply(create("refs/heads/new", refs.commits[0]))
    path = refs.git_directory / "reftable" / "tables.list"
    names = stack_names(refs)
    path.write_text("\n".join(reversed(names)))
    with pytest.raises(CorruptTableList, match="out of order"):
        stack_of(refs).refresh()
    other = RefsRepository(tmp_path / "other", "reftable", "sha256")
    foreign = stack_names(other)[0]
    table = (other.git_directory / "reftable" / foreign).read_bytes()
    (path.parent / foreign).write_bytes(table)
    path.write_text(foreign)
    with pytest.raises(CorruptTableList, match="of a sha256 repository"):
        stack_of(refs).refresh()


def test_an_empty_table(refs: RefsRepository) -> None:
    (refs.git_directory / "reftable" / stack_names(refs)[0]).write_bytes(b"")
    with pytest.raises(CorruptReftable, match="header"):
        stack_of(refs).refresh()


def test_the_order_of_an_addition(refs: RefsRepository) -> None:
    port = refs.port
    assert isinstance(port, CountingPort)
    refs.references.read("HEAD")
    port.calls.clear()
    with refs.repository.transaction() as transaction:
        refs.references.apply(transaction, [create("refs/heads/a", refs.commits[0])], WHO)
    steps = [(call, path.rpartition("/")[2]) for call, path in port.calls if "reftable" in path]
    renames = [path for call, path in steps if call == "rename"]
    assert steps[0] == ("open", "tables.list.lock")
    assert ".temp." in steps[1][1]
    assert renames == [stack_names(refs)[-1], "tables.list"]


def uneven(refs: RefsRepository) -> Stack:
    """Two tables that ought to be one."""
    for name in ("a", "b"):
        with refs.repository.transaction() as transaction:
            updates = [create(f"refs/heads/{name}", refs.commits[0])]
            refs.references.apply(transaction, updates, WHO)
    assert isinstance(refs.references, ReftableStore)
    stack = refs.references.stack
    stack.refresh()
    assert tables_to_merge([weight(table) for table in stack.tables])
    return stack


def test_the_order_of_a_compaction(refs: RefsRepository) -> None:
    stack, port = uneven(refs), refs.port
    assert isinstance(port, CountingPort)
    old = stack_names(refs)
    port.calls.clear()
    compact_if_uneven(stack, refs.repository.transaction)
    steps = [(call, path.rpartition("/")[2]) for call, path in port.calls if "reftable" in path]
    new = stack_names(refs)
    locks = [("open", f"{name}.lock") for name in reversed(old)]
    opened = [step for step in steps if step[0] == "open" and ".ref" not in step[1][-4:]]
    assert opened[: len(locks) + 1] == [("open", "tables.list.lock"), *locks]
    unlocked = steps.index(("unlink", "tables.list.lock"))
    written = next(number for number, (_, path) in enumerate(steps) if ".temp." in path)
    relocked = steps.index(("open", "tables.list.lock"), unlocked)
    assert steps.index(locks[-1]) < unlocked < written < relocked
    assert [path for call, path in steps if call == "rename"] == [*new, "tables.list"]
    published = steps.index(("rename", "tables.list"))
    removed = [steps.index(("unlink", name)) for name in old]
    released = [steps.index(("unlink", f"{name}.lock")) for name in old]
    assert published < min(removed) < max(removed) < min(released)
    assert refs.leftovers() == []


@pytest.mark.parametrize("locked", ["tables.list", "newest", "oldest"])
def test_compaction_gives_way(refs: RefsRepository, locked: str) -> None:
    stack = uneven(refs)
    names = {"tables.list": "tables.list", "newest": stack_names(refs)[-1]}
    names["oldest"] = stack_names(refs)[0]
    lock = refs.git_directory / "reftable" / f"{names[locked]}.lock"
    lock.touch()
    before = stack_names(refs)
    compact_if_uneven(stack, refs.repository.transaction)
    if locked == "oldest":
        assert stack_names(refs)[0] == before[0]
    else:
        assert stack_names(refs) == before
    assert refs.leftovers() == [lock.name]
    if locked == "tables.list":
        with pytest.raises(LockHeld, match=r"tables\.list\.lock"):
            refs.apply(create("refs/heads/c", refs.commits[0]))
    lock.unlink()
    compact_if_uneven(stack, refs.repository.transaction)
    assert refs.references.read("refs/heads/b") == refs.commits[0]


def test_an_addition_during_a_compaction_is_kept(refs: RefsRepository) -> None:
    stack = uneven(refs)

    class Adding(OsPort):
        """Adds a reference as soon as the compaction has unlocked the list."""

        unlinked = False

        def unlink(self, path: str) -> None:
            super().unlink(path)
            if path.endswith("tables.list.lock"):
                self.unlinked = True
                adder.apply(create("refs/heads/during", refs.commits[0]))

    adder = refs
    compacting = refs.open()
    other = Adding()
    compacting.port = other
    own = Stack(other, stack.path("")[:-1], refs.repository.algorithm, StackOptions())
    compact_if_uneven(own, compacting.transaction)
    assert other.unlinked
    for name in ("a", "b", "during"):
        assert refs.references.read(f"refs/heads/{name}") == refs.commits[0]


def test_pack_refs_auto_in_a_process_of_its_own(refs: RefsRepository) -> None:
    uneven(refs)
    context = Context(OsPort(), str(refs.directory), (), {})
    assert pack_refs.run(context, ["--auto"]) == 0
    assert len(stack_names(refs)) == 1


def test_the_stack_stays_short(refs: RefsRepository) -> None:
    for number in range(120):
        refs.apply(write(f"refs/heads/b{number % 7}", refs.commits[number % 4]))
        assert len(stack_names(refs)) <= 8
    assert list(refs.references.verify()) == []
