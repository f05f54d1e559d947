"""Reading a pack whole: does it have what its index says, and nothing else?"""

from __future__ import annotations

import zlib

from impl.durability.port import map_file
from impl.errors import Corrupt
from impl.objects.bitmap import decode_bitmap
from impl.objects.pack_errors import ObjectTooLarge, UnsupportedVersion
from impl.objects.pack_file import Pack
from impl.objects.rev import decode_reverse_index


def pack_problems(pack: Pack) -> list[str]:
    """What is wrong with a pack, its .idx, and its .rev and .bitmap if it has them; in words.

    Raises OSError.
    """
    try:
        if not pack.index.names.is_sorted():
            return [f"{pack.index.path}: its object names are not in order"]
        pack.verify_checksum()
        offsets = pack.index.offsets
    except (Corrupt, UnsupportedVersion) as error:
        return [str(error)]
    problems = []
    order = pack.index.by_offset
    ends = [*(offsets[position] for position in order[1:]), pack.data.end]
    for position, end in zip(order, ends, strict=True):
        entry = pack.data.data[offsets[position] : end]
        name = pack.index.names.name_at(position)
        if zlib.crc32(entry) != pack.index.checksums[position]:
            problems.append(f"{pack.path}: CRC mismatch of {name.hex()}, against its .idx")
        try:
            pack.read(offsets[position], name)
        except (Corrupt, ObjectTooLarge) as error:
            problems.append(str(error))
    return problems + _derived_problems(pack)


def _derived_problems(pack: Pack) -> list[str]:
    problems = []
    index, algorithm = pack.index, pack.algorithm
    for suffix in (".rev", ".bitmap"):
        path = pack.stem + suffix
        try:
            data = map_file(pack.port, path)
        except FileNotFoundError:
            continue
        try:
            if suffix == ".bitmap":
                decode_bitmap(data, index.count, index.pack_checksum, algorithm, path)
            else:
                order = decode_reverse_index(
                    data, index.count, index.pack_checksum, algorithm, path
                )
                if list(order) != list(index.by_offset):
                    problems.append(f"{path}: its order is not that of the pack")
        except (Corrupt, UnsupportedVersion) as error:
            problems.append(str(error))
    return problems
