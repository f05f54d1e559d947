"""Orders of enumeration: any beginning of them is spread over the whole."""

from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


def stratified(count: int, rotation: int = 0) -> Iterator[int]:
    """Every number of range(count) once, in a van der Corput order (base 2).

    The first k numbers are evenly spread over the range for every k: numbers are visited by their
    reversed binary digits. `rotation` shifts all of them round the range, so that different
    seeds sample different numbers.
    """
    bits = max(1, (count - 1).bit_length())
    for index in range(1 << bits):
        number = int(f"{index:0{bits}b}"[::-1], 2)
        if number < count:
            yield (number + rotation) % count


class Stream(Generic[T]):
    """A source of a weighted merge.

    :ivar name: what the merge calls it.
    :ivar weight: how many items it gives for each that a source of weight 1 gives.
    """

    def __init__(self, name: str, weight: int, items: Iterator[T]) -> None:
        """Start with no credit: heavier streams come first."""
        self.name = name
        self.weight = weight
        self.items = items
        self.credit = 0


def weighted_merge(streams: Sequence[Stream[T]]) -> Iterator[tuple[str, T]]:
    """Take turns between streams in proportion to their weights, until all are exhausted.

    Yields (name of the stream, item). Smooth: a stream of weight 2 beside two of weight 1 gives
    a-b-a-c, not a-a-b-c. An exhausted stream leaves its share to the others.
    """
    active = list(streams)
    while active:
        total = sum(stream.weight for stream in active)
        for stream in active:
            stream.credit += stream.weight
        chosen = max(active, key=lambda stream: stream.credit)
        chosen.credit -= total
        try:
            item = next(chosen.items)
        except StopIteration:
            active.remove(chosen)
            continue
        yield chosen.name, item


def round_robin(sources: Iterator[Iterator[T]]) -> Iterator[T]:
    """One item of each source, then another of each, until all are exhausted.

    Sources are created one by one as the first round reaches them, so that a consumer that stops
    early never pays for the rest.
    """
    active: list[Iterator[T]] = []
    for source in sources:
        try:
            item = next(source)
        except StopIteration:
            continue
        active.append(source)
        yield item
    while active:
        remaining = []
        for source in active:
            try:
                item = next(source)
            except StopIteration:
                continue
            remaining.append(source)
            yield item
        active = remaining
