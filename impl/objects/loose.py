"""Loose objects: one file each, deflated, in a directory named by its first two digits.

The bytes are `<type> <length>` NUL `<content>`, through zlib; the name is the digest of that
before compression. Source: gitrepository-layout(5) and git-hash-object(1).
"""

import zlib
from collections.abc import Iterator

from impl.durability.port import Bytes, Port, read_file
from impl.errors import CorruptObject, InvalidObject
from impl.objects.hashes import HashAlgorithm, Readable
from impl.objects.model import TYPES

_HEADER_BYTES_MAX = 32
"""git reads the type and length from this many bytes, and so never writes more."""

DEFAULT_COMPRESSION = 1
"""git's for loose objects (core.looseCompression): fast."""

_CONTENT_BYTES_MAX = 1 << 40
"""More than this is no object, but a damaged header."""


def loose_path(objects_directory: str, name: str) -> str:
    """Where an object's file is."""
    return f"{objects_directory}/{name[:2]}/{name[2:]}"


def deflate(type_name: str, content: Readable, level: int = DEFAULT_COMPRESSION) -> bytes:
    """The bytes of an object's file. Raises InvalidObject for a type that does not exist."""
    if type_name not in TYPES:
        raise InvalidObject(f"invalid object type '{type_name}'")
    compressor = zlib.compressobj(level)
    header = b"%s %d\0" % (type_name.encode(), len(content))
    return compressor.compress(header) + compressor.compress(content) + compressor.flush()


def inflate(data: Bytes, name: str, algorithm: HashAlgorithm) -> tuple[str, bytes]:
    """The type and content in an object's file.

    Never inflates more than the header announces. Raises CorruptObject if the file is empty,
    is no object, or is not the object `name`.
    """
    decompressor = zlib.decompressobj()
    try:
        start = decompressor.decompress(data, _HEADER_BYTES_MAX)
        type_name, length, begin = _parse_header(start, name)
        missing = length - (len(start) - begin)
        rest = b""
        if missing >= 0 and not decompressor.eof:
            # One byte more than announced: shows whether the stream ends where it should.
            rest = decompressor.decompress(decompressor.unconsumed_tail, missing + 1)
    except zlib.error as error:
        raise CorruptObject(f"loose object {name} is corrupt: {error}") from None
    content = start[begin:] + rest
    if len(content) != length or not decompressor.eof:
        raise CorruptObject(f"loose object {name} is corrupt: not {length} bytes long, or cut off")
    if decompressor.unused_data:
        raise CorruptObject(f"garbage at end of loose object {name}")
    if algorithm.object_name(type_name, content) != name:
        raise CorruptObject(f"loose object {name} is corrupt: its content has another name")
    return type_name, content


def _parse_header(start: bytes, name: str) -> tuple[str, int, int]:
    end = start.find(b"\0")
    kind, _, digits = start[: max(end, 0)].partition(b" ")
    type_name = kind.decode("ascii", "replace")
    if type_name not in TYPES or not digits.isdigit() or (digits[:1] == b"0" and digits != b"0"):
        raise CorruptObject(f"loose object {name} is corrupt: it has no proper header")
    length = int(digits)
    if length > _CONTENT_BYTES_MAX:
        raise CorruptObject(f"loose object {name} is corrupt: it claims to be {length} bytes long")
    return type_name, length, end + 1


def read_loose(
    port: Port, path: str, name: str, algorithm: HashAlgorithm
) -> tuple[str, bytes] | None:
    """The object in a file; None if there is no such file. Raises CorruptObject."""
    try:
        data = read_file(port, path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return inflate(data, name, algorithm)


def loose_names(
    port: Port, objects_directory: str, algorithm: HashAlgorithm, prefix: str = ""
) -> Iterator[str]:
    """The names of all loose objects, or of those with a prefix, in order."""
    fan_outs = [prefix[:2]] if len(prefix) >= 2 else [f"{byte:02x}" for byte in range(256)]
    for fan_out in fan_outs:
        try:
            rests = port.list_directory(f"{objects_directory}/{fan_out}")
        except (FileNotFoundError, NotADirectoryError):
            continue
        for name in sorted(fan_out + rest for rest in rests):
            if algorithm.is_name(name) and name.startswith(prefix):
                yield name
