"""Crash states: what a power cut may have left of a log."""

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, order=True)
class TornWrite:
    """A write of which only some atomic units reached the media.

    :ivar write: the request's number in the log.
    :ivar kept_units: sorted indexes (of `DeviceProfile.atomic_unit_bytes` each, counted from the
        write's first byte) that were kept; a proper, non-empty subset of the write's units.
    """

    write: int
    kept_units: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CrashState:
    """A cut in the log and the non-durable writes before it that did not make it.

    It stands for exactly one disk image: every write submitted before the cut is kept, unless it
    is in `dropped` or torn; where kept writes overlap, the one submitted last wins.

    :ivar cut: an event position of the log: the events [0, cut) happened.
    :ivar dropped: numbers of requests that are lost. Legal only for writes not durable at `cut`.
    :ivar torn: writes of which a part is lost. Legal only for writes not durable at `cut`.
    """

    cut: int
    dropped: frozenset[int] = frozenset()
    torn: frozenset[TornWrite] = field(default_factory=frozenset)

    @classmethod
    def make(
        cls, cut: int, dropped: Iterable[int] = (), torn: Iterable[TornWrite] = ()
    ) -> "CrashState":
        """Build a state from any iterables."""
        return cls(cut, frozenset(dropped), frozenset(torn))
