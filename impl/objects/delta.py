"""Deltas: one object's content told as copies from another's, and new bytes between them.

Format: gitformat-pack(5), "Deltified representation".
"""

from __future__ import annotations

import re

from impl.durability.port import Bytes
from impl.objects.pack_errors import DamagedDelta

ANCHOR_BYTES = 16
"""How many equal bytes make two places worth comparing; git's own block size."""

_LONGEST_COPY_BYTES = 0x10000
_LONGEST_INSERT_BYTES = 0x7F
_COPY = 0x80
_LINE_END = re.compile(rb"[\n\0]")
"""Where anchors start: lines of text, and the names in trees, which end with a NUL."""


def delta_sizes(delta: Bytes) -> tuple[int, int]:
    """The sizes in bytes of the base and of the result that a delta claims.

    :raises DamagedDelta: the delta ends within them.
    """
    base_size, position = _read_size(delta, 0)
    result_size, _ = _read_size(delta, position)
    return base_size, result_size


def apply_delta(base: Bytes, delta: Bytes) -> bytes:
    """The content that `delta` makes of `base`. Memory is bounded by the claimed result size.

    :raises DamagedDelta: the sizes do not agree, a copy reaches beyond the base, an instruction
        is cut short, or it is the reserved one.
    """
    base_size, position = _read_size(delta, 0)
    result_size, position = _read_size(delta, position)
    if base_size != len(base):
        raise DamagedDelta(f"made for a base of {base_size} bytes, the base has {len(base)}")
    source = memoryview(base)
    pieces: list[Bytes] = []
    made = 0
    end = len(delta)
    while position < end:
        opcode = delta[position]
        position += 1
        if opcode & _COPY:
            start, size, position = _read_copy(delta, position, opcode)
            if start + size > base_size:
                raise DamagedDelta(f"a copy ends at byte {start + size} of {base_size}")
            pieces.append(source[start : start + size])
        elif opcode:
            size = opcode
            if position + size > end:
                raise DamagedDelta("it ends within new bytes")
            pieces.append(delta[position : position + size])
            position += size
        else:
            raise DamagedDelta("it has the reserved instruction 0")
        made += size
        if made > result_size:
            break
    if made != result_size:
        raise DamagedDelta(f"it makes {made} bytes or more where it claims {result_size}")
    return b"".join(pieces)


def _read_copy(delta: Bytes, position: int, opcode: int) -> tuple[int, int, int]:
    """Start and size in the base, and the position after the instruction."""
    start = size = 0
    try:
        for index in range(4):
            if opcode >> index & 1:
                start |= delta[position] << 8 * index
                position += 1
        for index in range(3):
            if opcode >> (4 + index) & 1:
                size |= delta[position] << 8 * index
                position += 1
    except IndexError:
        raise DamagedDelta("it ends within a copy instruction") from None
    return start, size or _LONGEST_COPY_BYTES, position


def _read_size(delta: Bytes, position: int) -> tuple[int, int]:
    size = shift = 0
    while position < len(delta) and shift < 63:
        byte = delta[position]
        position += 1
        size |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return size, position
    raise DamagedDelta("its header gives no size")


class DeltaBase:
    """One object's content, prepared to have others told as differences from it.

    It is compared by lines, not by every byte: a hundred times fewer steps in Python, at the
    price of longer deltas for contents that have neither lines nor NULs.
    """

    __slots__ = ("anchors", "content")

    def __init__(self, content: bytes) -> None:
        """Of any content."""
        self.content = content
        self.anchors: dict[bytes, int] = {}
        for start in _anchor_positions(content):
            self.anchors.setdefault(content[start : start + ANCHOR_BYTES], start)

    def shared_anchors(self, other: DeltaBase) -> int:
        """How many lines' beginnings two contents share: a cheap forecast of the delta's size."""
        return len(self.anchors.keys() & other.anchors.keys())

    def delta(self, target: bytes, limit_bytes: int) -> bytes | None:
        """A delta that makes `target` of this content; None if it would exceed `limit_bytes`."""
        output = bytearray(_size_bytes(len(self.content)) + _size_bytes(len(target)))
        told = 0
        for start in _anchor_positions(target):
            if start < told:
                continue
            found = self.anchors.get(target[start : start + ANCHOR_BYTES])
            if found is None:
                continue
            back = _common_suffix(self.content, found, target, start, start - told)
            length = _common_prefix(self.content, found, target, start)
            _insert(output, target, told, start - back)
            _copy(output, found - back, back + length)
            told = start + length
            if len(output) > limit_bytes:
                return None
        _insert(output, target, told, len(target))
        return bytes(output) if len(output) <= limit_bytes else None


def _anchor_positions(content: bytes) -> list[int]:
    last = len(content) - ANCHOR_BYTES
    if last < 0:
        return []
    return [0, *(found.end() for found in _LINE_END.finditer(content, 0, last))]


def _common_prefix(base: bytes, base_start: int, target: bytes, target_start: int) -> int:
    """How many bytes agree from the two places on: doubling steps, then halving ones."""
    longest = min(len(base) - base_start, len(target) - target_start)
    agreed, step, growing = 0, 64, True
    while step and agreed < longest:
        step = min(step, longest - agreed)
        at, there = base_start + agreed, target_start + agreed
        if base[at : at + step] == target[there : there + step]:
            agreed += step
            step = step * 2 if growing else step
        else:
            growing = False
            step //= 2
    return agreed


def _common_suffix(base: bytes, base_end: int, target: bytes, target_end: int, limit: int) -> int:
    """How many bytes agree before the two places, at most `limit`."""
    longest = min(base_end, limit)
    agreed = 0
    while agreed < longest and base[base_end - agreed - 1] == target[target_end - agreed - 1]:
        agreed += 1
    return agreed


def _insert(output: bytearray, target: bytes, start: int, end: int) -> None:
    while start < end:
        size = min(end - start, _LONGEST_INSERT_BYTES)
        output.append(size)
        output += target[start : start + size]
        start += size


def _copy(output: bytearray, start: int, length: int) -> None:
    while length:
        size = min(length, _LONGEST_COPY_BYTES)
        opcode = _COPY
        arguments = bytearray()
        for index in range(4):
            if byte := start >> 8 * index & 0xFF:
                opcode |= 1 << index
                arguments.append(byte)
        for index in range(2):
            if byte := size >> 8 * index & 0xFF:
                opcode |= 1 << (4 + index)
                arguments.append(byte)
        output.append(opcode)
        output += arguments
        start += size
        length -= size


def _size_bytes(size: int) -> bytes:
    encoded = bytearray()
    while size > 0x7F:
        encoded.append(size & 0x7F | 0x80)
        size >>= 7
    encoded.append(size)
    return bytes(encoded)
