"""`count-objects`: how many objects there are, loose and packed, and what they take."""

from __future__ import annotations

from impl.context import Context
from impl.errors import UsageError
from impl.objects.loose import loose_names, loose_path
from impl.options import parse_options

_USAGE = "usage: refgit count-objects [-v]"
_BLOCK_BYTES = 512


def run(context: Context, arguments: list[str]) -> int:
    """Print the counts; sizes in KiB, of loose objects as the disk has them.

    Raises UsageError, Corrupt (an .idx), OSError.
    """
    options = parse_options(arguments, _USAGE, flags="verbose|v")
    if options.rest:
        raise UsageError(_USAGE)
    repository = context.repository
    store = repository.objects.packs
    directory = repository.objects.directory
    loose = disk_bytes = packable = 0
    for name in loose_names(repository.port, directory, repository.algorithm):
        status = repository.port.stat(loose_path(directory, name))
        loose += 1
        disk_bytes += status.st_blocks * _BLOCK_BYTES
        packable += store.contains(name)
    if not options.flags:
        context.print(f"{loose} objects, {disk_bytes // 1024} kilobytes")
        return 0
    packs = store.packs()
    packed_bytes = sum(
        pack.size_bytes() + repository.port.stat(pack.stem + ".idx").st_size for pack in packs
    )
    for label, value in (
        ("count", loose),
        ("size", disk_bytes // 1024),
        ("in-pack", sum(pack.index.count for pack in packs)),
        ("packs", len(packs)),
        ("size-pack", packed_bytes // 1024),
        ("prune-packable", packable),
    ):
        context.print(f"{label}: {value}")
    for label, value in _garbage(context):
        context.print(f"{label}: {value}")
    return 0


def _garbage(context: Context) -> list[tuple[str, int]]:
    """Files among the packs that belong to none."""
    store = context.repository.objects.packs
    known = {f"{pack.name}" for pack in store.packs()}
    count = size = 0
    try:
        files = store.port.list_directory(store.directory)
    except FileNotFoundError:
        files = ()
    for file in files:
        stem = file.rpartition(".")[0]
        if stem in known or file.startswith("multi-pack-index"):
            continue
        count += 1
        size += store.port.stat(f"{store.directory}/{file}").st_size
    return [("garbage", count), ("size-garbage", size // 1024)]
