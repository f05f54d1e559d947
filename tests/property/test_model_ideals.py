"""The journal models against another way to say the same: sets of changes closed under "before".

A crash keeps a set of atoms: records (names, truncations), the data of writes, the sizes that
writes gave. Which sets are legal is said by rules between atoms; every subset is tried. Only the
last cut is compared: it has the states of all cuts since the last sync.
"""

from collections.abc import Iterator
from itertools import chain, combinations
from typing import TypeGuard

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from crashsim.model.models import MODELS
from crashsim.model.namespace import Namespace
from crashsim.model.operations import Close, Entry, Log, Operation, Resize, Scope, Sync, Write
from crashsim.model.states import crash_states
from crashsim.model.tree import Directory, File, Node, digest_of
from tests.support.model_histories import Step, machine_after, steps

ATOMS_LIMIT = 13

Atom = tuple[str, int]


def zeroes_a_tail(operation: Operation) -> TypeGuard[Resize]:
    """A truncation within the file's only page writes zeros behind its new end."""
    return isinstance(operation, Resize) and 0 < operation.length < operation.size_before


def last_change(log: Log, sync: Sync) -> int:
    """The last record that this sync has to make durable, with all before it; -1: none."""
    last = -1
    for each in log.operations:
        if each.number > sync.number:
            break
        match each:
            case Entry():
                touched = {each.inode, each.replaced, *(slot.directory for slot in each.slots)}
                if sync.scope is Scope.DATA:
                    touched = {each.inode} if each.created is not None else set()
            case Resize():
                touched = {each.inode}
            case Write():
                touched = {each.inode} if each.extends else set()
            case _:
                touched = set()
        if sync.inode in touched:
            last = each.number
    return last


class Reference:
    """Every legal set of one log, for files within one sector."""

    def __init__(self, log: Log, *, ordered: bool, size_after_data: bool) -> None:
        self.log, self._ordered, self._size_after_data = log, ordered, size_after_data
        self.records = [e for e in log.operations if isinstance(e, Entry | Resize)]
        self.writes = [e for e in log.operations if isinstance(e, Write)]
        self.sizes = [e for e in self.writes if e.extends]
        self.atoms: list[Atom] = [("record", e.number) for e in self.records]
        self._datas: list[Write | Resize] = [
            e for e in log.operations if isinstance(e, Write) or zeroes_a_tail(e)
        ]
        self.atoms += (("data", e.number) for e in self._datas)
        self.atoms += (("size", e.number) for e in self.sizes)
        self._committed = -1
        self._forced = frozenset(self._durable())
        self._barriers = list(self._find_barriers())

    def _of_file(self, inode: int, before: int) -> Iterator[Atom]:
        for kind, group in (("data", self._datas), ("size", self.sizes)):
            yield from ((kind, e.number) for e in group if e.inode == inode and e.number < before)

    def _durable(self) -> Iterator[Atom]:
        """What syncs have made durable; also notes how far commits went."""
        for sync in self.log.syncs:
            if sync.scope is Scope.FILESYSTEM:
                self._committed = sync.number - 1
                yield from (atom for atom in self.atoms if atom[1] < sync.number)
            elif sync.scope is not Scope.PAGES:
                last = last_change(self.log, sync)
                self._committed = max(self._committed, last)
                yield from (("record", e.number) for e in self.records if e.number <= last)
                yield from self._of_file(sync.inode, sync.number)

    def _find_barriers(self) -> Iterator[tuple[int, int]]:
        """(number, inode): a commit of this record or a later one has the file's data, too."""
        emptied = set()
        for each in self.log.operations:
            match each:
                case Sync(scope=Scope.PAGES):
                    yield each.number, each.inode
                case Entry(replaced=replaced) if replaced is not None and self._ordered:
                    yield each.number, each.inode
                case Resize(length=0):
                    emptied.add(each.inode)
                case Close() if each.inode in emptied:
                    emptied.discard(each.inode)
                    if self._ordered:
                        yield each.number, each.inode

    def is_legal(self, kept: frozenset[Atom]) -> bool:
        if not kept >= self._forced:
            return False
        numbers = [e.number for e in self.records]
        first_lost = min((n for n in numbers if ("record", n) not in kept), default=1 << 60)
        last_kept = max((n for n in numbers if ("record", n) in kept), default=-1)
        if last_kept > first_lost or not all(
            self._is_legal(each, kept, first_lost) for each in self._datas
        ):
            return False
        evidence = max(last_kept, self._committed)
        return all(
            kept.issuperset(self._of_file(inode, after))
            for after, inode in self._barriers
            if evidence >= after
        )

    def _is_legal(self, write: Write | Resize, kept: frozenset[Atom], first_lost: int) -> bool:
        data, size = ("data", write.number) in kept, ("size", write.number) in kept
        earlier = [e for e in self._datas if e.inode == write.inode and e.number < write.number]
        if data and any(("data", e.number) not in kept for e in earlier):
            return False
        if not size:
            return True
        is_forced = ("size", write.number) in self._forced
        return (
            (write.number < first_lost or is_forced)
            and all(("size", e.number) in kept for e in earlier if e in self.sizes)
            and (data or not self._size_after_data)
        )

    def tree(self, kept: frozenset[Atom]) -> int:
        nodes = {self.log.base.inodes[path]: node for path, node in self.log.base.items()}
        contents: dict[int, tuple[bytearray, int]] = {}
        names = Namespace(self.log.base)
        freed: set[int] = set()
        for each in self.log.operations:
            if isinstance(each, Entry) and ("record", each.number) in kept:
                names.apply(each)
            if isinstance(each, Entry) and each.created is not None:
                nodes[each.inode] = each.created
            if isinstance(each, Write | Resize):
                node = nodes[each.inode]
                assert isinstance(node, File)
                known = contents.get(each.inode, (bytearray(node.content), len(node.content)))
                contents[each.inode] = self._changed(each, kept, *known, freed)
        return digest_of({path: self._node(nodes, contents, i) for path, i in names.paths.items()})

    @staticmethod
    def _changed(
        change: Write | Resize, kept: frozenset[Atom], store: bytearray, size: int, freed: set[int]
    ) -> tuple[bytearray, int]:
        """A file's store and size after one more change, as far as it is kept."""
        has_data = ("data", change.number) in kept and change.inode not in freed
        if isinstance(change, Resize):
            if ("record", change.number) in kept:
                return store[: change.length], change.length
            if change.length == 0:
                freed.add(change.inode)
            elif has_data:
                store[change.length :] = bytes(len(store[change.length :]))
            return store, size
        if has_data:
            store.extend(bytes(max(0, change.end - len(store))))
            store[change.offset : change.end] = change.data
        return store, max(size, change.end) if ("size", change.number) in kept else size

    @staticmethod
    def _node(
        nodes: dict[int, Node], contents: dict[int, tuple[bytearray, int]], inode: int
    ) -> Node:
        node = nodes[inode]
        if isinstance(node, Directory) or inode not in contents:
            return node
        assert isinstance(node, File)
        store, size = contents[inode]
        return File(bytes(store[:size].ljust(size, b"\0")), node.mode)


def subsets(atoms: list[Atom]) -> Iterator[frozenset[Atom]]:
    sizes = range(len(atoms) + 1)
    return map(frozenset, chain.from_iterable(combinations(atoms, size) for size in sizes))


@pytest.mark.parametrize(
    ("name", "ordered", "size_after_data"),
    [("ext4-ordered", True, False), ("ext4-writeback", False, False), ("xfs", False, True)],
)
@settings(max_examples=120, deadline=None)
@given(sequence=st.lists(steps, min_size=1, max_size=7))
def test_the_states_of_the_last_cut_are_the_legal_sets(
    name: str, ordered: bool, size_after_data: bool, sequence: list[Step]
) -> None:
    log = machine_after(sequence).log
    reference = Reference(log, ordered=ordered, size_after_data=size_after_data)
    assume(len(reference.atoms) <= ATOMS_LIMIT)
    legal = {reference.tree(kept) for kept in subsets(reference.atoms) if reference.is_legal(kept)}
    since = log.operations[-1].number + 1 if log.operations else 0
    assert {state.digest for state in crash_states(log, MODELS[name], since=since)} == legal
