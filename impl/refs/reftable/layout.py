"""The fixed parts of a reftable: its header, and its footer with the section offsets.

Source: git's technical document "reftable" (Documentation/technical/reftable), versions 1 and 2.
"""

import struct
import zlib
from typing import NamedTuple

from impl.objects.hashes import SHA1, SHA256, HashAlgorithm
from impl.refs.errors import CorruptReftable

_MAGIC = b"REFT"
_HEADER_BYTES = {1: 24, 2: 28}
_OFFSETS = struct.Struct(">5Q")
FOOTER_BYTES_MAX = 72
BLOCK_BYTES_MAX = (1 << 24) - 1
"""Block lengths and restart offsets have three bytes."""


class Header(NamedTuple):
    """What a table says of itself.

    :ivar block_size_bytes: the alignment of reference, object and index blocks; 0 for none.
    :ivar min_update_index: of the transactions in the table, the first one's number.
    :ivar max_update_index: and the last one's.
    """

    block_size_bytes: int
    min_update_index: int
    max_update_index: int
    algorithm: HashAlgorithm

    @property
    def version(self) -> int:
        """1 has no field for the hash, and so is only for SHA-1."""
        return 1 if self.algorithm is SHA1 else 2

    @property
    def size_bytes(self) -> int:
        """Length of the encoded header."""
        return _HEADER_BYTES[self.version]


class Sections(NamedTuple):
    """Where the sections of a table start, in bytes from its start; 0 for a section that is not
    there. The reference section always starts at 0, and the log section where there is no other.

    :ivar object_id_bytes: how much of each object name the object section keeps.
    """

    ref_index: int = 0
    objects: int = 0
    object_id_bytes: int = 0
    object_index: int = 0
    logs: int = 0
    log_index: int = 0


def encode_header(header: Header) -> bytes:
    """The first 24 (version 1) or 28 bytes (version 2)."""
    fixed = struct.pack(
        ">4sB3sQQ",
        _MAGIC,
        header.version,
        header.block_size_bytes.to_bytes(3, "big"),
        header.min_update_index,
        header.max_update_index,
    )
    return fixed if header.version == 1 else fixed + header.algorithm.format_identifier


def decode_header(content: bytes, what: str) -> Header:
    """Parse a header at the start of `content`. Raises CorruptReftable; `what` names the table."""
    if content[:4] != _MAGIC or len(content) < 24:
        raise CorruptReftable(f"{what} does not start with a reftable header")
    version = content[4]
    if version not in _HEADER_BYTES or len(content) < _HEADER_BYTES[version]:
        raise CorruptReftable(f"{what} has the unknown reftable version {version}")
    block_size = int.from_bytes(content[5:8], "big")
    first, last = struct.unpack_from(">QQ", content, 8)
    if first > last:
        raise CorruptReftable(f"{what} starts at update {first}, after its end at update {last}")
    algorithm = SHA1
    if version == 2:
        if content[24:28] != SHA256.format_identifier:
            raise CorruptReftable(f"{what} names the unknown hash {content[24:28]!r}")
        algorithm = SHA256
    return Header(block_size, first, last, algorithm)


def encode_footer(header: Header, sections: Sections) -> bytes:
    """The last 68 or 72 bytes: the header again, the offsets, a CRC-32 of both."""
    body = encode_header(header) + _OFFSETS.pack(
        sections.ref_index,
        sections.objects << 5 | sections.object_id_bytes,
        sections.object_index,
        sections.logs,
        sections.log_index,
    )
    return body + struct.pack(">I", zlib.crc32(body))


def decode_footer(content: bytes, header: Header, file_bytes: int, what: str) -> Sections:
    """Parse the footer, which is the end of `content`, the end of a file of `file_bytes`.

    Raises CorruptReftable where it does not repeat the header, has another CRC, or points
    outside of the file.
    """
    size = header.size_bytes
    length = footer_bytes(header)
    body = content[-length:-4]
    if len(content) < length or body[:size] != encode_header(header):
        raise CorruptReftable(f"{what} has no footer that repeats its header: it is cut off")
    if zlib.crc32(body) != int.from_bytes(content[-4:], "big"):
        raise CorruptReftable(f"{what} has a footer whose CRC-32 does not match")
    ref_index, objects, object_index, logs, log_index = _OFFSETS.unpack_from(body, size)
    sections = Sections(ref_index, objects >> 5, objects & 31, object_index, logs, log_index)
    if max(ref_index, sections.objects, object_index, logs, log_index) > file_bytes - length:
        raise CorruptReftable(f"{what} has a footer that points beyond the end of the file")
    return sections


def footer_bytes(header: Header) -> int:
    """Length of the footer: 68 bytes, or 72 in version 2."""
    return header.size_bytes + _OFFSETS.size + 4
