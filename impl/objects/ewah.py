"""EWAH: sets of bit positions, compressed by words, as git's bitmap files hold them.

In memory a set is one Python integer (bit i = position i): union, intersection and counting are
then single operations in C. Format: gitformat-bitmap(5), "Appendix A".
"""

from __future__ import annotations

import struct
import sys
from array import array
from itertools import groupby

from impl.durability.port import Bytes
from impl.objects.pack_errors import DamagedBitmap

_WORD_BITS = 64
_ALL_ONES = (1 << _WORD_BITS) - 1
_LONGEST_RUN = (1 << 32) - 1
_MOST_LITERALS = (1 << 31) - 1


def encode_ewah(bits: int) -> bytes:
    """The compressed form of a set, as it stands in a file."""
    word_count = (bits.bit_length() + _WORD_BITS - 1) // _WORD_BITS
    words = array("Q", bits.to_bytes(word_count * 8, "little"))
    if sys.byteorder == "big":
        words.byteswap()
    buffer: list[int] = []
    last_marker = 0
    run_bit, run_length = 0, 0
    literals: list[int] = []

    def flush() -> None:
        nonlocal last_marker
        last_marker = len(buffer)
        buffer.append(run_bit | run_length << 1 | len(literals) << 33)
        buffer.extend(literals)

    for value, group in groupby(words):
        count = sum(1 for _ in group)
        if value not in (0, _ALL_ONES):
            literals.extend([value] * count)
            continue
        if run_length or literals:
            flush()
            literals = []
        run_bit, run_length = value & 1, count
    flush()
    return struct.pack(f">II{len(buffer)}QI", bits.bit_length(), len(buffer), *buffer, last_marker)


def ewah_size_bytes(data: Bytes, offset: int, path: str) -> int:
    """How many bytes the compressed set at `offset` takes.

    :raises DamagedBitmap: it reaches beyond the data.
    """
    if offset + 8 > len(data):
        raise DamagedBitmap(path, f"it ends within the bitmap at {offset}")
    size = 12 + 8 * int.from_bytes(data[offset + 4 : offset + 8], "big")
    if offset + size > len(data):
        raise DamagedBitmap(path, f"it ends within the bitmap at {offset}")
    return size


def decode_ewah(data: Bytes, offset: int, most_bits: int, path: str) -> int:
    """The set whose compressed form starts at `offset`; no position in it reaches `most_bits`.

    :raises DamagedBitmap: cut short, or of positions beyond `most_bits`, which also bounds the
        memory that it takes.
    """
    word_count = (ewah_size_bytes(data, offset, path) - 12) // 8
    words = struct.unpack_from(f">{word_count}Q", data, offset + 8)
    most_words = (most_bits + _WORD_BITS - 1) // _WORD_BITS
    pieces: list[bytes] = []
    made = position = 0
    while position < word_count:
        marker = words[position]
        run_length, literal_count = marker >> 1 & _LONGEST_RUN, marker >> 33 & _MOST_LITERALS
        made += run_length + literal_count
        literals = words[position + 1 : position + 1 + literal_count]
        if made > most_words or len(literals) != literal_count:
            raise DamagedBitmap(path, f"the bitmap at {offset} is longer than its pack")
        pieces.append((b"\xff" if marker & 1 else b"\0") * (8 * run_length))
        pieces.append(struct.pack(f"<{literal_count}Q", *literals))
        position += 1 + literal_count
    bits = int.from_bytes(b"".join(pieces), "little")
    if bits >> most_bits:
        raise DamagedBitmap(path, f"the bitmap at {offset} has positions beyond its pack")
    return bits


def positions(bits: int) -> list[int]:
    """The members of a set, ascending."""
    found = []
    data = bits.to_bytes((bits.bit_length() + 7) // 8, "little")
    for index, byte in enumerate(data):
        while byte:
            lowest = byte & -byte
            found.append(index * 8 + lowest.bit_length() - 1)
            byte ^= lowest
    return found


def set_of(members: list[int], size: int) -> int:
    """The set of the given positions, all below `size`."""
    data = bytearray((size + 7) // 8)
    for member in members:
        data[member >> 3] |= 1 << (member & 7)
    return int.from_bytes(data, "little")
