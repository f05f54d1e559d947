"""Objects that are read more than once while a pack is made."""

from __future__ import annotations

from impl.objects.walk import Read

_MOST_KEPT_BYTES = 64 << 20


class ReadCache:
    """A reader that keeps what it has read, up to a number of bytes.

    Packing reads every object in its own order two or three times over, so what came first is
    kept: a cache that forgets the oldest would have forgotten everything when it comes again.
    """

    def __init__(self, read: Read, most_kept_bytes: int = _MOST_KEPT_BYTES) -> None:
        """:param read: where objects come from at first."""
        self._read = read
        self._left_bytes = most_kept_bytes
        self._kept: dict[bytes, tuple[str, bytes]] = {}

    def __call__(self, name: bytes) -> tuple[str, bytes]:
        """The object's type and content. Raises what the reader raises."""
        found = self._kept.get(name)
        if found is None:
            found = self._read(name)
            if len(found[1]) <= self._left_bytes:
                self._left_bytes -= len(found[1])
                self._kept[name] = found
        return found
