"""Choosing how each object of a new pack is written: copied, as a new delta, or whole."""

import zlib
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from impl.objects.bitmap import path_hash
from impl.objects.delta import DeltaBase
from impl.objects.pack_data import LONGEST_CHAIN
from impl.objects.pack_file import Pack, PackedObject
from impl.objects.pack_format import TYPE_NAMES, TYPE_NUMBERS
from impl.objects.packs import PackStore
from impl.objects.walk import Read

_SMALLEST_DELTIFIED_BYTES = 50
_LARGEST_DELTIFIED_BYTES = 1 << 20
_MOST_KEPT_BYTES = 128 << 20
"""Of new deltas held until they are written: after that, no more are looked for."""
_BASES_TRIED = 2
"""How many of a window's most alike objects are really compared with."""


class Wanted(NamedTuple):
    """An object to be packed. :ivar path: where it was found; alike paths, alike contents."""

    name: bytes
    path: bytes = b""


class DeltaLimits(NamedTuple):
    """How much work deltas may take: git's options of these names.

    :ivar window: how many objects each one is compared with; 0 for no new deltas.
    :ivar depth: how many deltas may lead to one object.
    :ivar reuse_delta: whether deltas are copied from existing packs.
    :ivar reuse_object: whether anything is.
    """

    window: int = 10
    depth: int = 50
    reuse_delta: bool = True
    reuse_object: bool = True


class NewDelta(NamedTuple):
    """A delta made for this pack. :ivar size_bytes: before it was compressed."""

    base: bytes
    size_bytes: int
    compressed: bytes


class Placement:
    """How one object is written.

    :ivar kind: its type's number; 0 for a copied delta, which has its base's.
    :ivar size_bytes: of the content, or of a copied delta.
    :ivar source: the pack to copy its entry from; None if it is compressed anew.
    :ivar base: the object that the copied entry is a delta of.
    :ivar delta: the new delta, which goes before anything else.
    :ivar depth: how many new deltas lead to it.
    """

    __slots__ = ("base", "delta", "depth", "kind", "path_hash", "size_bytes", "source")

    def __init__(
        self,
        kind: int,
        size_bytes: int,
        path_hash: int,
        source: PackedObject | None = None,
        base: bytes | None = None,
    ) -> None:
        """Whole, or as it is in `source`; the search for deltas comes later."""
        self.kind = kind
        self.size_bytes = size_bytes
        self.path_hash = path_hash
        self.source = source
        self.base = base
        self.delta: NewDelta | None = None
        self.depth = 0

    @property
    def needs(self) -> bytes | None:
        """What has to be in the pack before it."""
        return self.delta.base if self.delta is not None else self.base


def plan_pack(
    wanted: Iterable[Wanted],
    packs: PackStore,
    read: Read,
    limits: DeltaLimits,
    compress: Callable[[bytes], bytes] = zlib.compress,
) -> dict[bytes, Placement]:
    """How to write each object, once, in the order in which they are wanted.

    Raises StoreError for what cannot be read.
    """
    paths: dict[bytes, bytes] = {}
    for name, path in wanted:
        paths.setdefault(name, path)
    plan = {name: _place(name, path, paths, packs, read, limits) for name, path in paths.items()}
    _break_cycles(plan)
    if limits.window:
        _DeltaSearch(plan, read, limits, compress).run()
    return plan


def _place(
    name: bytes,
    path: bytes,
    wanted: dict[bytes, bytes],
    packs: PackStore,
    read: Read,
    limits: DeltaLimits,
) -> Placement:
    found = packs.find(name) if limits.reuse_object else None
    if found is not None:
        header = found.pack.data.header(found.offset)
        if header.kind in TYPE_NAMES:
            return Placement(header.kind, header.size_bytes, path_hash(path), found)
        if limits.reuse_delta and (base := _base_name(found)) in wanted:
            return Placement(0, header.size_bytes, path_hash(path), found, base)
    type_name, content = read(name)
    return Placement(TYPE_NUMBERS[type_name], len(content), path_hash(path))


def _base_name(found: PackedObject) -> bytes | None:
    pack = found.pack
    header = pack.data.header(found.offset)
    if isinstance(header.base, bytes):
        return header.base
    position = pack.positions_by_offset.get(header.base or 0)
    return None if position is None else pack.index.names.name_at(position)


def _break_cycles(plan: dict[bytes, Placement]) -> None:
    """Two packs may have each of two objects as a delta of the other: one is then told whole."""
    settled: set[bytes] = set()
    for name in plan:
        chain: list[bytes] = []
        on_chain: set[bytes] = set()
        current: bytes | None = name
        while current is not None and current not in settled:
            if current in on_chain or len(chain) >= LONGEST_CHAIN:
                last = plan[chain[-1]]
                last.source = last.base = None
                break
            chain.append(current)
            on_chain.add(current)
            current = plan[current].base
        settled.update(chain)


class _Candidate:
    """An object in the window, read and prepared only if it is compared with another."""

    __slots__ = ("_base", "_read", "name", "placement")

    def __init__(self, name: bytes, placement: Placement, read: Read) -> None:
        self.name = name
        self.placement = placement
        self._read = read
        self._base: DeltaBase | None = None

    @property
    def base(self) -> DeltaBase:
        if self._base is None:
            self._base = DeltaBase(self._read(self.name)[1])
        return self._base

    @property
    def pack(self) -> Pack | None:
        source = self.placement.source
        return None if source is None else source.pack


class _DeltaSearch:
    """Compares each object with those that are next to it by type, path and size.

    The larger one is the base, so every delta points back in this order: cycles cannot be.
    """

    def __init__(
        self,
        plan: dict[bytes, Placement],
        read: Read,
        limits: DeltaLimits,
        compress: Callable[[bytes], bytes],
    ) -> None:
        self._plan = plan
        self._read = read
        self._limits = limits
        self._compress = compress
        self._kept_bytes = 0

    def run(self) -> None:
        """Set `delta` in the plan wherever a delta is worth it."""
        alike = sorted(
            (
                (place.kind, place.path_hash, -place.size_bytes, order, name)
                for order, (name, place) in enumerate(self._plan.items())
                if place.base is None
                and _SMALLEST_DELTIFIED_BYTES <= place.size_bytes <= _LARGEST_DELTIFIED_BYTES
            ),
        )
        window: deque[_Candidate] = deque(maxlen=self._limits.window)
        for kind, *_, name in alike:
            if window and window[-1].placement.kind != kind:
                window.clear()
            candidate = _Candidate(name, self._plan[name], self._read)
            if self._kept_bytes < _MOST_KEPT_BYTES:
                self._try(candidate, window)
            window.append(candidate)

    def _try(self, target: _Candidate, window: Iterable[_Candidate]) -> None:
        """Objects that stand whole in the same pack were compared when that was written."""
        forecasts: list[tuple[int, int, int, _Candidate]] = []
        for other in window:
            same_pack = target.pack is not None and target.pack is other.pack
            too_unlike = other.placement.size_bytes > 32 * target.placement.size_bytes
            if same_pack or too_unlike or other.placement.depth >= self._limits.depth:
                continue
            shared = other.base.shared_anchors(target.base)
            if shared:
                forecasts.append((shared, -other.placement.depth, len(forecasts), other))
        content = target.base.content if forecasts else b""
        limit = len(content) // 2 - 20
        for *_, other in sorted(forecasts, reverse=True)[:_BASES_TRIED]:
            delta = other.base.delta(content, limit)
            if delta is None:
                continue
            limit = len(delta) - 1
            target.placement.delta = NewDelta(other.name, len(delta), self._compress(delta))
            target.placement.depth = other.placement.depth + 1
        if target.placement.delta is not None:
            self._kept_bytes += len(target.placement.delta.compressed)
