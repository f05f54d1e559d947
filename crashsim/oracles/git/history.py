"""Compares what is there with what was promised: the properties *durable* and *atomic*.

With the last promise before the cut at k, each part of the repository (HEAD, each ref, the stash
list, the index, each reflog, the config) may be as promised at k, or as promised at k + 1 when that
step was under way, or as a state that the step declares to pass through. Anything else is broken:
an older value, or none, is a lost promise (*durable*); a value that never was is *atomic*. A part
that is there and cannot be read does not hold its promise either, so it is *durable* next to the
*intact* or *recoverable* violation that says what is wrong with it.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce

from crashsim.oracles.git.reachability import REPORT_LIMIT
from crashsim.oracles.git.reflog import ENTRY_HASH_DIGITS
from crashsim.oracles.git.refs import SYMBOLIC
from crashsim.oracles.git.rules import violation
from crashsim.oracles.git.snapshot import GitPromise, GitSnapshot
from crashsim.oracles.protocol import Violation


@dataclass(frozen=True)
class Expectation:
    """Which states are legal at one moment.

    :ivar promised: the state of the last promise before the cut.
    :ivar legal: that state, those that the step under way may pass through, and its end.
    :ivar older: states promised before, oldest first.
    :ivar under_way: the step that was under way; None after the last one.
    """

    promised: GitSnapshot
    legal: tuple[GitSnapshot, ...]
    older: tuple[GitSnapshot, ...]
    under_way: GitPromise | None

    def is_unnoted(self, part: str) -> bool:
        """Whether values of `part` that are in no state are legal."""
        return self.under_way is not None and part in self.under_way.unnoted_between

    @property
    def known(self) -> tuple[GitSnapshot, ...]:
        """Every state that the repository may ever have had at this moment."""
        return (*self.older, *self.legal)


def expect(history: Sequence[GitPromise], promises_made: int) -> Expectation | None:
    """What is legal after the first `promises_made` promises; None before the first."""
    if promises_made == 0:
        return None
    promised = history[promises_made - 1].state
    under_way = history[promises_made] if promises_made < len(history) else None
    legal = [promised]
    if under_way is not None:
        legal += [*under_way.legal_between, under_way.state]
    older = tuple(promise.state for promise in history[: promises_made - 1])
    return Expectation(promised, tuple(legal), older, under_way)


@dataclass(frozen=True)
class Unreadable:
    """Parts that are there and cannot be read.

    :ivar all_refs: the whole backend cannot be read, so that no ref is there.
    """

    refs: frozenset[str] = frozenset()
    all_refs: bool = False
    index: bool = False
    config: bool = False


def compare(found: GitSnapshot, unreadable: Unreadable, expected: Expectation) -> list[Violation]:
    """Every part that is in no legal state."""
    return [
        *_head(found, unreadable, expected),
        *_limit(_refs(found, unreadable, expected)),
        *_transaction(found, unreadable, expected),
        *_stash(found, expected),
        *_index(found, unreadable, expected),
        *_limit(_reflogs(found, expected)),
        *_config(found, unreadable, expected),
    ]


def _limit(found: Iterable[Violation]) -> list[Violation]:
    return list(found)[:REPORT_LIMIT]


def _head(found: GitSnapshot, unreadable: Unreadable, expected: Expectation) -> list[Violation]:
    if found.head and found.head in {state.head for state in expected.legal}:
        return _dangling_head(found, unreadable, expected)
    was = expected.promised.head
    if not found.head:
        return [violation("head-lost", "HEAD", f"HEAD was promised to be {was}; it has no value")]
    if found.head in {state.head for state in expected.older}:
        return [violation("head-lost", "HEAD", f"HEAD was promised to be {was}, is {found.head}")]
    if expected.is_unnoted("head"):
        return []
    return [violation("head-unknown", "HEAD", f"HEAD is {found.head}, which it never was")]


def _dangling_head(
    found: GitSnapshot, unreadable: Unreadable, expected: Expectation
) -> list[Violation]:
    """A branch that was promised and is gone is a lost ref, not a dangling HEAD."""
    target = found.head.removeprefix(SYMBOLIC)
    if target == found.head or target in found.refs or target in unreadable.refs:
        return []
    if target in expected.promised.refs:
        return []
    if any(state.head == found.head and target not in state.refs for state in expected.known):
        return []
    detail = f"HEAD points to {target}, which is not there and should be made before"
    return [violation("head-dangling", "HEAD", detail)]


def _refs(found: GitSnapshot, unreadable: Unreadable, expected: Expectation) -> Iterable[Violation]:
    names = set(found.refs).union(*(state.refs for state in expected.legal))
    for name in sorted(names):
        value = found.refs.get(name)
        legal = {state.refs.get(name) for state in expected.legal}
        was = expected.promised.refs.get(name)
        if value in legal and name not in unreadable.refs:
            continue
        if name in unreadable.refs:
            if was is not None:
                detail = f"{name} was promised to be {was}; it cannot be read"
                yield violation("ref-lost", name, detail)
        elif value is None:
            yield violation("ref-lost", name, f"{name} was promised to be {was}; it is gone")
        elif value in {state.refs.get(name) for state in expected.older}:
            if was is None:
                detail = f"{name} was promised to be deleted; it is {value} again"
                yield violation("ref-resurrected", name, detail)
            else:
                yield violation("ref-lost", name, f"{name} was promised to be {was}, is {value}")
        elif not expected.is_unnoted("refs"):
            yield violation("ref-unknown", name, f"{name} is {value}, which it never was")


def _transaction(
    found: GitSnapshot, unreadable: Unreadable, expected: Expectation
) -> list[Violation]:
    step = expected.under_way
    if step is None or not step.one_transaction or unreadable.all_refs:
        return []
    before, after = expected.promised.refs, step.state.refs
    changed = [
        name
        for name in sorted({*before, *after} - unreadable.refs)
        if before.get(name) != after.get(name)
    ]
    new = [name for name in changed if found.refs.get(name) == after.get(name)]
    old = [name for name in changed if found.refs.get(name) == before.get(name)]
    if not new or not old:
        return []
    detail = (
        f"of {len(changed)} refs that {step.step} changes in one transaction {len(new)} are new "
        f"({new[0]}) and {len(old)} old ({old[0]})"
    )
    return [violation("transaction-torn", old[0], detail)]


def _stash(found: GitSnapshot, expected: Expectation) -> list[Violation]:
    if found.stash in [state.stash for state in expected.legal]:
        return []
    must_be_there = [
        entry
        for entry in expected.promised.stash
        if all(entry in state.stash for state in expected.legal)
    ]
    lost = [entry for entry in must_be_there if entry not in found.stash]
    if lost:
        detail = (
            f"{len(lost)} of {len(expected.promised.stash)} promised stash entries are gone, "
            f"among them {lost[0]}"
        )
        return [violation("stash-lost", "refs/stash", detail)]
    known = {entry for state in expected.known for entry in state.stash}
    unknown = [entry for entry in found.stash if entry not in known]
    if not unknown and found.stash in [state.stash for state in expected.older]:
        detail = f"dropped stash entries are back: {len(found.stash)} entries"
        return [violation("stash-resurrected", "refs/stash", detail)]
    if expected.is_unnoted("stash"):
        return []
    detail = f"the stash list has {len(found.stash)} entries and was never like this"
    return [violation("stash-unknown", "refs/stash", detail)]


def _index(found: GitSnapshot, unreadable: Unreadable, expected: Expectation) -> list[Violation]:
    if unreadable.index:
        if not expected.promised.index:
            return []
        detail = "the index was promised with its entries; it cannot be read"
        return [violation("index-lost", "index", detail)]
    if found.index in {state.index for state in expected.legal}:
        return []
    if not found.index:
        return [violation("index-lost", "index", "the promised index is gone")]
    if found.index in {state.index for state in expected.older}:
        return [violation("index-lost", "index", "the index has older entries than promised")]
    if expected.is_unnoted("index"):
        return []
    return [violation("index-unknown", "index", "the index has entries that it never had")]


def _reflogs(found: GitSnapshot, expected: Expectation) -> Iterable[Violation]:
    names = set(found.reflogs).union(*(state.reflogs for state in expected.legal))
    for name in sorted(names):
        value = found.reflogs.get(name, "")
        legal = [state.reflogs.get(name, "") for state in expected.legal]
        if _is_legal_log(value, legal):
            continue
        entries = _count(value)
        promised = _count(expected.promised.reflogs.get(name, ""))
        must_be_there = reduce(Counter.__and__, map(_count, legal))
        known = {entry for state in expected.known for entry in _count(state.reflogs.get(name, ""))}
        lost = (must_be_there - entries).total()
        if lost:
            detail = f"{lost} of {promised.total()} promised entries of {name}'s reflog are gone"
            yield violation("reflog-lost", f"logs/{name}", detail)
        elif known.issuperset(entries):
            detail = f"{name}'s reflog has {entries.total()} entries, some of which were removed"
            yield violation("reflog-resurrected", f"logs/{name}", detail)
        elif not expected.is_unnoted("reflogs"):
            detail = f"{name}'s reflog has entries that it never had"
            yield violation("reflog-unknown", f"logs/{name}", detail)


def _is_legal_log(value: str, legal: list[str]) -> bool:
    """Entries are appended one at a time: any length between two legal states is legal."""
    if value in legal:
        return True
    return any(
        value.startswith(before) and after.startswith(value)
        for position, before in enumerate(legal)
        for after in legal[position + 1 :]
    )


def _count(fingerprint: str) -> Counter[str]:
    """How often each entry is in a log: amending twice can make two equal ones."""
    size = ENTRY_HASH_DIGITS
    return Counter(fingerprint[at : at + size] for at in range(0, len(fingerprint), size))


def _config(found: GitSnapshot, unreadable: Unreadable, expected: Expectation) -> list[Violation]:
    if unreadable.config:
        return [violation("config-lost", "config", "the promised config cannot be read")]
    if found.settings in [state.settings for state in expected.legal]:
        return []
    known = {item for state in expected.known for item in state.settings.items()}
    must_be_there = {
        item
        for item in expected.promised.settings.items()
        if all(item in state.settings.items() for state in expected.legal)
    }
    lost = sorted(must_be_there - set(found.settings.items()))
    if lost and known.issuperset(found.settings.items()):
        detail = f"{len(lost)} promised settings are gone or old, among them {lost[0][0]}"
        return [violation("config-lost", "config", detail)]
    if found.settings in [state.settings for state in expected.older]:
        return [violation("config-lost", "config", "removed settings are back")]
    if expected.is_unnoted("config"):
        return []
    return [violation("config-unknown", "config", "the config has settings that it never had")]
