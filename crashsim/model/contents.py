"""What one file may hold after a crash."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import product

from crashsim.model.extents import Extents, Level, Version, levels_of, zeroed_tail
from crashsim.model.operations import ChangeMode, FileChange, Resize, Write
from crashsim.model.persistence import DataRules
from crashsim.model.tree import Directory, File, Node, Symlink

CHOICES_LIMIT = 4096
"""No file is given more contents than this in one world; beyond, the first ones count."""

PIECES_DEFAULT = 2


class Loss(Enum):
    """How much of a change is missing."""

    ALL = "lost"
    DATA = "data lost, its place is there"
    PART = "torn"


@dataclass(frozen=True, slots=True)
class Lost:
    """One change that did not survive whole."""

    number: int
    loss: Loss


@dataclass(frozen=True, slots=True)
class Choice:
    """One content that a file may have.

    :ivar lost: what is missing for it, in order.
    :ivar last_kept: the highest number of a change that it shows, or -1.
    """

    node: Node
    lost: tuple[Lost, ...]
    last_kept: int


def choices(
    base: Node,
    changes: Sequence[FileChange],
    floor: int,
    horizon: int,
    rules: DataRules,
    pieces: int | None = PIECES_DEFAULT,
) -> tuple[Choice, ...]:
    """Every content that a file may have, the ones with the fewest losses first.

    :param base: the file before the changes.
    :param changes: what was done to it until the cut, in order.
    :param floor: changes below this number have survived.
    :param horizon: changes of metadata from this number on have not, unless below the floor.
    :param pieces: a single write is torn into so many pieces at most; None: into every unit.
    """
    modes = [each for each in changes if isinstance(each, ChangeMode)]
    kept_modes = [each for each in modes if each.number < max(floor, horizon)]
    lost_modes = tuple(Lost(each.number, Loss.ALL) for each in modes[len(kept_modes) :])
    last_mode = kept_modes[-1].number if kept_modes else -1
    match base:
        case Symlink():
            return (Choice(base, (), -1),)
        case Directory():
            mode = kept_modes[-1].mode if kept_modes else base.mode
            return (Choice(Directory(mode), lost_modes, last_mode),)
        case File():
            mode = kept_modes[-1].mode if kept_modes else base.mode
    data = [each for each in changes if not isinstance(each, ChangeMode)]
    settled = [each for each in data if each.number < floor]
    pending = data[len(settled) :]
    start = bytearray(base.content)
    for change in settled:
        _apply(start, change)
    last = max(last_mode, settled[-1].number if settled else -1)
    enumerate_contents = _independent if rules.independent else _page_cache
    found = enumerate_contents(bytes(start), pending, horizon, rules, pieces)
    ordered = sorted(found.items(), key=lambda item: (len(item[1].lost), -item[1].last_kept))
    return tuple(
        Choice(
            File(content, mode),
            tuple(sorted((*each.lost, *lost_modes), key=lambda lost: lost.number)),
            max(last, each.last_kept),
        )
        for content, each in ordered
    )


@dataclass(frozen=True, slots=True)
class _Account:
    """How a content came about."""

    lost: tuple[Lost, ...]
    last_kept: int


def _apply(content: bytearray, change: Write | Resize) -> None:
    if isinstance(change, Resize):
        del content[change.length :]
        content.extend(bytes(change.length - len(content)))
    else:
        content.extend(bytes(max(0, change.offset - len(content))))
        content[change.offset : change.end] = change.data


def _keep_better(found: dict[bytes, _Account], content: bytes, account: _Account) -> None:
    """Of two ways to the same content, remember the one that loses less."""
    known = found.get(content)
    if known is None or len(account.lost) < len(known.lost):
        found[content] = account


def _page_cache(
    start: bytes,
    pending: Sequence[Write | Resize],
    horizon: int,
    rules: DataRules,
    pieces: int | None,
) -> dict[bytes, _Account]:
    """Contents where the kernel writes pages back and a journal or tree records sizes.

    A truncation is metadata: it is kept below the horizon. A write is data and, where the file
    grew, a size. Each unit of the file is at some moment of its own history, from before all
    pending writes to after them all; the size is one that the file had.
    """
    extents = Extents.of(start, pending, horizon, rules, pieces)
    found: dict[bytes, _Account] = {}
    budget = CHOICES_LIMIT
    for level in levels_of(start, pending, horizon, rules, extents.unit_bytes):
        ranges = extents.versions(level, rules)
        for versions in product(*ranges):
            content = extents.content(level.size, versions)
            _keep_better(found, content, _account(extents, level, versions, horizon))
            budget -= 1
            if budget == 0:
                return found
    return found


def _account(extents: Extents, level: Level, versions: Sequence[Version], horizon: int) -> _Account:
    """What a content of this size, with these versions of its units, is missing."""
    missing, last = extents.missing(level, versions)
    lost: list[Lost] = []
    resizes = [each for each in extents.pending if isinstance(each, Resize)]
    for change in extents.pending:
        if isinstance(change, Resize):
            if change.number >= horizon:
                tail = missing.get(change.number, [])
                lost.append(Lost(change.number, Loss.ALL if all(tail) else Loss.PART))
            else:
                last = max(last, change.number)
            continue
        cuts = [each.length for each in resizes if change.number < each.number < horizon]
        end = min([change.end, *cuts])
        if end <= change.offset:
            continue
        flags = missing.get(change.number, [])
        if all(flags):
            in_place = change.offset < level.size and change.end > change.size_before
            lost.append(Lost(change.number, Loss.DATA if flags and in_place else Loss.ALL))
        elif any(flags) or level.size < end:
            lost.append(Lost(change.number, Loss.PART))
    return _Account(tuple(lost), last)


@dataclass(frozen=True, slots=True)
class _Part:
    """One thing that survives or not on its own: a truncation, a piece of data, or a new size.

    :ivar ends: where the piece ends; for a size: the sizes that there may have been meanwhile.
    """

    change: Write | Resize
    low: int
    ends: tuple[int, ...]
    is_size: bool = False


def _independent(
    start: bytes,
    pending: Sequence[Write | Resize],
    _horizon: int,
    rules: DataRules,
    pieces: int | None,
) -> dict[bytes, _Account]:
    """Contents where nothing is ordered: each piece of data, each size on its own."""
    parts: list[_Part] = []
    for change in pending:
        if isinstance(change, Resize):
            tail = zeroed_tail(change, rules.page_bytes)
            if tail is not None:
                parts.append(_Part(tail, tail.offset, (tail.end,)))
            parts.append(_Part(change, 0, (change.length,)))
            continue
        bounds = _pieces_of(change, rules, pieces)
        parts += (_Part(change, low, (high,)) for low, high in bounds)
        sizes = tuple(high for _, high in reversed(bounds) if high > change.size_before)
        if sizes:
            parts.append(_Part(change, 0, sizes, is_size=True))
    found: dict[bytes, _Account] = {}
    options = [(*part.ends, None) for part in parts]
    for count, picked in enumerate(product(*options)):
        if count == CHOICES_LIMIT:
            break
        content = _assembled(start, parts, picked)
        _keep_better(found, content, _independent_account(parts, picked, len(content)))
    return found


def _assembled(start: bytes, parts: Sequence[_Part], picked: Sequence[int | None]) -> bytes:
    """The file with these of its parts; None is a part that is lost."""
    size, store = len(start), bytearray(start)
    for part, end in zip(parts, picked, strict=True):
        if end is None:
            continue
        if isinstance(part.change, Resize):
            size = end
            del store[size:]
        elif part.is_size:
            size = max(size, end)
        else:
            offset = part.change.offset
            store.extend(bytes(max(0, part.low - len(store))))
            store[part.low : end] = part.change.data[part.low - offset : end - offset]
    return bytes(store[:size].ljust(size, b"\0"))


def _pieces_of(write: Write, rules: DataRules, pieces: int | None) -> list[tuple[int, int]]:
    """The pieces that a write may be torn into, as offsets in the file."""
    unit = rules.unit_bytes
    while pieces is not None and (write.end - 1) // unit - write.offset // unit >= pieces:
        unit *= 2
    bounds = range(write.offset // unit * unit, write.end, unit)
    return [(max(low, write.offset), min(low + unit, write.end)) for low in bounds]


def _independent_account(
    parts: Sequence[_Part], picked: Sequence[int | None], size: int
) -> _Account:
    lost: list[Lost] = []
    last = -1
    flags: dict[int, list[bool]] = {}
    data_flags: dict[int, list[bool]] = {}
    for part, end in zip(parts, picked, strict=True):
        number = part.change.number
        is_data = not part.is_size and isinstance(part.change, Write)
        # Data behind the end of the file is not there, whether it was written or not.
        is_there = end == part.ends[0] and not (is_data and part.low >= size)
        flags.setdefault(number, []).append(is_there)
        if is_data:
            data_flags.setdefault(number, []).append(is_there)
        if end is not None and (is_there or part.is_size):
            last = max(last, number)
        if end is not None and isinstance(part.change, Resize):
            flags[number] = [True]
            data_flags.pop(number, None)
    for number, mine in flags.items():
        data = data_flags.get(number)
        if not any(mine):
            lost.append(Lost(number, Loss.ALL))
        elif data is not None and not any(data):
            lost.append(Lost(number, Loss.DATA))
        elif not all(mine):
            lost.append(Lost(number, Loss.PART))
    return _Account(tuple(lost), last)
