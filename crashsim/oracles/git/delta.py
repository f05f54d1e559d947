"""Pack deltas (gitformat-pack(5), "Deltified representation")."""

from crashsim.oracles.git.damage import FormatError
from crashsim.oracles.git.objects import OBJECT_LIMIT_BYTES, ObjectTooLarge


def _size(delta: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if position >= len(delta) or shift > 56:
            raise FormatError("has a delta that ends within its header")
        byte = delta[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, position


def _copy_operands(delta: bytes, position: int, opcode: int) -> tuple[int, int, int]:
    offset = size = 0
    for bit in range(7):
        if opcode & (1 << bit):
            if position >= len(delta):
                raise FormatError("has a delta that ends within an instruction")
            if bit < 4:
                offset |= delta[position] << (8 * bit)
            else:
                size |= delta[position] << (8 * (bit - 4))
            position += 1
    return offset, size or 0x10000, position


def apply_delta(base: bytes, delta: bytes) -> bytes:
    """Rebuild an object from its base. Raises FormatError when the two do not fit."""
    base_size, position = _size(delta, 0)
    result_size, position = _size(delta, position)
    if base_size != len(base):
        raise FormatError(f"has a delta for a base of {base_size} bytes, not {len(base)}")
    if result_size > OBJECT_LIMIT_BYTES:
        raise ObjectTooLarge(f"claims to hold {result_size} bytes")
    parts: list[bytes] = []
    produced = 0
    while position < len(delta):
        opcode = delta[position]
        position += 1
        if opcode & 0x80:
            offset, size, position = _copy_operands(delta, position, opcode)
            part = base[offset : offset + size]
        else:
            size = opcode
            part = delta[position : position + size]
            position += size
        if size == 0 or len(part) != size:
            raise FormatError("has a delta instruction that leaves its input")
        produced += size
        if produced > result_size:
            raise FormatError("has a delta that makes more than it says")
        parts.append(part)
    if produced != result_size:
        raise FormatError(f"has a delta that makes {produced} bytes instead of {result_size}")
    return b"".join(parts)
