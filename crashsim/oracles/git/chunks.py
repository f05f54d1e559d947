"""The chunk file format of multi-pack-index and commit-graph (gitformat-chunk(5))."""

import struct
from collections.abc import Mapping

from crashsim.oracles.git.damage import FormatError

_ENTRY_BYTES = 12


def read_chunks(
    content: bytes, table_start: int, count: int, trailer_bytes: int
) -> Mapping[bytes, bytes]:
    """Chunk id -> content, from the table at `table_start`. Raises FormatError as git would."""
    end = len(content) - trailer_bytes
    if table_start + (count + 1) * _ENTRY_BYTES > end:
        raise FormatError("ends within its table of chunks")
    chunks: dict[bytes, bytes] = {}
    name, start = struct.unpack_from(">4sQ", content, table_start)
    for number in range(1, count + 1):
        following, after = struct.unpack_from(">4sQ", content, table_start + number * _ENTRY_BYTES)
        if name == bytes(4) or name in chunks:
            raise FormatError(f"has the chunk {name!r} where it should not be")
        if not start <= after <= end:
            raise FormatError(f"has improper chunk offsets {start} and {after}")
        chunks[name] = content[start:after]
        name, start = following, after
    if name != bytes(4):
        raise FormatError(f"has a last chunk {name!r} that should be the end")
    return chunks


def oid_table(oidl: bytes, count: int, oid_bytes: int) -> list[bytes]:
    """The object names of an OIDL chunk. Raises FormatError when there are not `count`."""
    if len(oidl) != count * oid_bytes:
        raise FormatError(f"has {len(oidl)} bytes of object names for {count} objects")
    return [oidl[at : at + oid_bytes] for at in range(0, len(oidl), oid_bytes)]
