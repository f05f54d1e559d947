"""EWAH compressed bitmaps (gitformat-bitmap(5), appendix A)."""

import struct

from crashsim.oracles.git.damage import FormatError

_LIMIT_BITS = 1 << 28


def skip_ewah(content: bytes, position: int, end: int) -> int:
    """Where the bitmap that begins at `position` ends. Raises FormatError."""
    if position + 8 > end:
        raise FormatError("ends within a bitmap")
    words = struct.unpack_from(">I", content, position + 4)[0]
    after = position + 8 + 8 * int(words) + 4
    if after > end:
        raise FormatError("ends within a bitmap")
    return after


def read_ewah(content: bytes, position: int, end: int) -> tuple[list[int], int]:
    """The positions of the bits that are set, and where the bitmap ends. Raises FormatError."""
    after = skip_ewah(content, position, end)
    bits, words_count = struct.unpack_from(">II", content, position)
    if bits > _LIMIT_BITS:
        raise FormatError(f"has a bitmap of {bits} bits")
    words = struct.unpack_from(f">{words_count}Q", content, position + 8)
    positions: list[int] = []
    bit = word = 0
    while word < len(words):
        marker = words[word]
        run, literals = (marker >> 1) & 0xFFFFFFFF, marker >> 33
        if bit + 64 * (run + literals) > bits + 64 or word + literals >= len(words):
            raise FormatError("has a bitmap that is longer than it says")
        if marker & 1:
            positions.extend(range(bit, bit + 64 * run))
        bit += 64 * run
        for literal in words[word + 1 : word + 1 + literals]:
            positions.extend(bit + shift for shift in range(64) if literal >> shift & 1)
            bit += 64
        word += 1 + literals
    return [found for found in positions if found < bits], after
