"""`unpack-objects`: store every object of a pack on standard input as a loose object."""

from __future__ import annotations

from impl.context import Context
from impl.errors import UsageError
from impl.objects.pack_build import NewPack
from impl.objects.pack_format import TYPE_NAMES
from impl.objects.pack_receive import STREAM_NAME, outside_bases, receive_pack
from impl.objects.pack_scan import PackScan
from impl.options import parse_options

_USAGE = "usage: refgit unpack-objects [-n] [-q] < PACK"


def run(context: Context, arguments: list[str]) -> int:
    """Unpack into one transaction; with `-n` only check the pack.

    The stream is spooled, and its checksum verified, before its first object is stored: what
    is damaged on its way leaves nothing behind. Objects that are there already are kept.

    Raises UsageError, StoreError (DamagedPack, ObjectTooLarge, …), OSError.
    """
    options = parse_options(arguments, _USAGE, flags="n q")
    if options.rest:
        raise UsageError(_USAGE)
    repository = context.repository
    objects = repository.objects
    with repository.transaction() as transaction:
        spool = NewPack(transaction, f"{objects.directory}/pack/pack")
        data = receive_pack(context.input, spool, repository.port)
        scan = PackScan(data, repository.algorithm, STREAM_NAME, outside_bases(objects))
        for found in scan.objects():
            if "n" not in options.flags:
                objects.store(found.name.hex(), TYPE_NAMES[found.kind], found.content)
    return 0
