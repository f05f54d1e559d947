"""XFS's log: records, what they hold, and which inodes and extents were logged in them.

Format: "XFS Algorithms & Data Structures", chapter "Journaling Log". Records and operation headers
are big-endian; log items are in the byte order of the machine that wrote them, here little-endian.
"""

from collections.abc import Iterator

from crashsim.explain.blocks import Owner, pieces, unpack

SECTOR_BYTES = 512
_MAGIC = 0xFEEDBABE
_COMMIT_FLAG, _UNMOUNT_FLAG = 0x02, 0x20
_RECORD_BYTES_MAX = 256 << 10
_INODE_ITEM, _INODE_ITEM_BYTES = 0x123B, 56
_EXTENTS_LOGGED = 0x4  # XFS_ILOG_DEXT


def is_record(data: bytes) -> bool:
    """Whether a log record begins here."""
    return unpack(">I", data) == (_MAGIC,)


def record_bytes(record: bytes) -> int | None:
    """How long the record is that begins here, header and body; None where none begins."""
    fields = unpack(">IIII", record)
    size = unpack(">I", record, 320)
    if fields is None or fields[0] != _MAGIC or size is None:
        return None
    version, body_bytes = int(fields[2]), int(fields[3])
    if body_bytes > _RECORD_BYTES_MAX:
        return None
    return _header_bytes(version, size[0]) + body_bytes


def _header_bytes(version: int, size: int) -> int:
    """A version 2 record has a header sector for each 32 KiB of h_size (xlog_rec_header)."""
    sectors = -(-size // 32768) if version & 2 and size <= _RECORD_BYTES_MAX else 1
    return SECTOR_BYTES * max(1, sectors)


def record_body(record: bytes) -> bytes:
    """What a log record holds, with the bytes back in place that the log replaced.

    On disk each sector begins with the cycle number; the original four bytes are in the header
    (h_cycle_data, 64 of them), or in its further sectors (xh_cycle_data).
    """
    _, _, version, _ = unpack(">IIII", record) or (0, 0, 0, 0)
    (size,) = unpack(">I", record, 320) or (0,)
    header = _header_bytes(version, size)
    body: list[bytes] = []
    for start, sector in pieces(record[header:], SECTOR_BYTES):
        index = start // SECTOR_BYTES
        place = 44 if index < 64 else SECTOR_BYTES * (index // 64) + 4
        original = record[place + index % 64 * 4 : place + index % 64 * 4 + 4]
        body.append(original + sector[4:])
    return b"".join(body)


def operations(record: bytes) -> Iterator[tuple[int, bytes]]:
    """(flags, region) of the operations (xlog_op_header) of a record, in order."""
    (count,) = unpack(">I", record, 40) or (0,)
    body = record_body(record)
    at = 0
    for _ in range(min(count, len(body) // 12)):
        operation = unpack(">IIBB", body, at)
        if operation is None:
            return
        _, length, _, flags = operation
        yield flags, body[at + 12 : at + 12 + length]
        at += 12 + length


def ends_checkpoint(record: bytes) -> bool:
    """Whether one of the record's operations commits a checkpoint."""
    return any(flags & (_COMMIT_FLAG | _UNMOUNT_FLAG) for flags, _ in operations(record))


def logged_extents(record: bytes) -> Iterator[tuple[Owner, bytes]]:
    """(inode and size, data fork with extents) of a record's inode items (xfs_inode_log_format).

    An item is three regions: its description, the inode's core, the data fork.
    """
    regions = [region for _, region in operations(record)]
    for index, region in enumerate(regions):
        item = unpack("<HHI", region)
        number = unpack("<Q", region, 16)
        if len(region) != _INODE_ITEM_BYTES or item is None or item[0] != _INODE_ITEM:
            continue
        if number is not None and item[2] & _EXTENTS_LOGGED and index + 2 < len(regions):
            size = unpack("<Q", regions[index + 1], 56)
            yield Owner(number[0], size[0] if size is not None else None), regions[index + 2]


def extents(fork: bytes) -> Iterator[tuple[int, int]]:
    """(filesystem block, count) of the extents packed in a data fork (xfs_bmbt_rec)."""
    for start, _ in pieces(fork, 16):
        high, low = unpack(">QQ", fork, start) or (0, 0)
        count = low & 0x1FFFFF
        if not count:
            return
        yield (high & 0x1FF) << 43 | low >> 21, count
