"""The objects in one pack's bytes: deltas resolved, within bounds of memory and depth."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from impl.durability.port import Bytes
from impl.objects.delta import apply_delta, delta_sizes
from impl.objects.pack_errors import DamagedDelta, DamagedPack, ObjectTooLarge
from impl.objects.pack_format import (
    LARGEST_OBJECT_BYTES,
    OFFSET_DELTA,
    TYPE_NAMES,
    EntryHeader,
    decode_entry_header,
    inflate,
)

LONGEST_CHAIN = 4095
"""Deltas on deltas: git's own limit of pack.depth. A cycle is found when it is passed."""

_CACHE_BYTES = 32 << 20

Content = tuple[int, bytes]
"""An object: its type's number (COMMIT, TREE, BLOB or TAG) and its content."""


class PackData:
    """A pack's bytes (a mapped file), read by offset."""

    def __init__(
        self,
        data: Bytes,
        name_bytes: int,
        path: str,
        find: Callable[[bytes], int | None],
        outside: Callable[[bytes], Content | None],
    ) -> None:
        """
        :param data: the whole file, its trailing checksum included.
        :param find: the offset of a named object in this pack, if it is there.
        :param outside: an object by name that is not in this pack: the base of a thin pack's
            delta. Packs in a repository have none.
        """
        self.data = data
        self.path = path
        self.end = len(data) - name_bytes
        self._name_bytes = name_bytes
        self._find = find
        self._outside = outside
        self._cache: OrderedDict[int, Content] = OrderedDict()
        self._cached_bytes = 0

    def header(self, offset: int) -> EntryHeader:
        """The header of the entry at `offset`.

        :raises DamagedPack: there is none.
        """
        if not 0 < offset < self.end:
            raise DamagedPack(self.path, f"offset {offset} is not in the pack's {self.end} bytes")
        return decode_entry_header(self.data, offset, self._name_bytes, self.path)

    def inflate(self, header: EntryHeader) -> tuple[bytes, int]:
        """An entry's own bytes (a delta's: the delta), and where the entry ends.

        :raises DamagedPack: they are damaged. :raises ObjectTooLarge: too many.
        """
        return inflate(self.data, header, self.end, self.path)

    def base_offset(self, header: EntryHeader) -> int | None:
        """Where a delta's base starts; None if it is not in this pack."""
        if header.kind == OFFSET_DELTA:
            assert isinstance(header.base, int)
            return header.base
        assert isinstance(header.base, bytes)
        return self._find(header.base)

    def read(self, offset: int) -> Content:
        """The object whose entry is at `offset`, whole.

        :raises DamagedPack: anything about it, or about what it is a delta of, is damaged.
        :raises ObjectTooLarge: more than LARGEST_OBJECT_BYTES.
        """
        deltas: list[EntryHeader] = []
        content = self._cached(offset)
        while content is None:
            header = self.header(offset)
            if header.kind in TYPE_NAMES:
                content = header.kind, self.inflate(header)[0]
                if deltas:
                    self._remember(offset, content)
                break
            deltas.append(header)
            if len(deltas) > LONGEST_CHAIN:
                raise DamagedPack(
                    self.path, f"more than {LONGEST_CHAIN} deltas lead to offset {offset}"
                )
            base = self.base_offset(header)
            if base is None:
                content = self._read_outside(header)
                break
            offset = base
            content = self._cached(offset)
        for header in reversed(deltas):
            content = content[0], self._apply(content[1], header)
            self._remember(header.offset, content)
        return content

    def _read_outside(self, header: EntryHeader) -> Content:
        assert isinstance(header.base, bytes)
        content = self._outside(header.base)
        if content is None:
            raise DamagedPack(
                self.path,
                f"the base {header.base.hex()} of the delta at offset {header.offset} is missing",
            )
        return content

    def _apply(self, base: bytes, header: EntryHeader) -> bytes:
        delta, _ = self.inflate(header)
        try:
            _, size = delta_sizes(delta)
            if size > LARGEST_OBJECT_BYTES:
                raise ObjectTooLarge(self.path, header.offset, size, LARGEST_OBJECT_BYTES)
            return apply_delta(base, delta)
        except DamagedDelta as error:
            raise DamagedPack(self.path, f"the delta at offset {header.offset}: {error}") from None

    def _cached(self, offset: int) -> Content | None:
        content = self._cache.get(offset)
        if content is not None:
            self._cache.move_to_end(offset)
        return content

    def _remember(self, offset: int, content: Content) -> None:
        """Keep what others are likely to be deltas of, the least used forgotten first."""
        if offset in self._cache or len(content[1]) > _CACHE_BYTES // 2:
            return
        self._cache[offset] = content
        self._cached_bytes += len(content[1])
        while self._cached_bytes > _CACHE_BYTES:
            _, (_, dropped) = self._cache.popitem(last=False)
            self._cached_bytes -= len(dropped)
