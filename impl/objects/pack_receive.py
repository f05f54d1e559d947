"""Taking in a pack from a stream: spooled into a temporary file, and completed if it is thin."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, BinaryIO

from impl.durability.port import Bytes, Port, read_descriptor, write_all
from impl.errors import ObjectMissing
from impl.objects.hashes import HashAlgorithm
from impl.objects.idx import PackedEntry
from impl.objects.pack_build import BuiltPack, NewPack
from impl.objects.pack_data import Content
from impl.objects.pack_errors import DamagedPack
from impl.objects.pack_format import (
    HEADER_BYTES,
    TYPE_NUMBERS,
    decode_header,
    encode_entry_header,
    encode_header,
)
from impl.objects.pack_scan import PackScan

if TYPE_CHECKING:
    from impl.objects.database import ObjectDatabase

STREAM_NAME = "the pack on standard input"
_CHUNK_BYTES = 1 << 17


def receive_pack(stream: BinaryIO, new: NewPack, port: Port) -> Bytes:
    """Copy the stream to its end into the new pack's file; its content.

    :raises DamagedPack, UnsupportedVersion: it does not start as a pack: no more is read then.
    """
    start = stream.read(HEADER_BYTES)
    decode_header(start, STREAM_NAME)
    new.write(start)
    while chunk := stream.read(_CHUNK_BYTES):
        new.write(chunk)
    size_bytes = port.fstat(new.descriptor).st_size
    try:
        return port.map(new.descriptor, size_bytes)
    except OSError:
        descriptor = port.open(new.temporary, os.O_RDONLY)
        try:
            return read_descriptor(port, descriptor)
        finally:
            port.close(descriptor)


def outside_bases(objects: ObjectDatabase) -> Callable[[bytes], Content | None]:
    """Where a thin pack's deltas find the bases that it lacks: in the repository."""

    def find(name: bytes) -> Content | None:
        try:
            type_name, content = objects.read(name.hex())
        except ObjectMissing:
            return None
        return TYPE_NUMBERS[type_name], content

    return find


def scanned_pack(scan: PackScan) -> BuiltPack:
    """Everything that an .idx needs of a pack. Raises what `PackScan.objects` does."""
    entries = [PackedEntry(found.name, found.offset, found.checksum) for found in scan.objects()]
    entries.sort(key=lambda entry: entry.offset)
    return BuiltPack(scan.checksum, entries)


def complete_thin_pack(
    data: Bytes, scan: PackScan, pack: BuiltPack, new: NewPack, port: Port, algorithm: HashAlgorithm
) -> BuiltPack:
    """Append the bases that a thin pack lacks: with a new count in its header, and a new checksum.

    :raises DamagedPack: the pack has a base itself, beside the delta that looked for it elsewhere.
    """
    end = len(data) - algorithm.size_bytes
    entries = list(pack.entries)
    own = {entry.name for entry in entries}
    added = bytearray()
    for name, (kind, content) in scan.outside_bases.items():
        if name in own:
            raise DamagedPack(STREAM_NAME, f"its deltas lead to {name.hex()} in a circle")
        entry = encode_entry_header(kind, len(content)) + zlib.compress(content)
        entries.append(PackedEntry(name, end + len(added), zlib.crc32(entry)))
        added += entry
    header = encode_header(len(entries))
    hasher = algorithm.new(header)
    hasher.update(data[HEADER_BYTES:end])
    hasher.update(added)
    checksum = hasher.digest()
    port.truncate(new.descriptor, end)
    _write_at(port, new.temporary, os.O_APPEND, added + checksum)
    _write_at(port, new.temporary, 0, header)
    return BuiltPack(checksum, entries)


def _write_at(port: Port, path: str, flags: int, content: Bytes) -> None:
    """At the start of the file, or at its end with O_APPEND."""
    descriptor = port.open(path, os.O_WRONLY | flags)
    try:
        write_all(port, descriptor, content)
    finally:
        port.close(descriptor)
