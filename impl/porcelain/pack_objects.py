"""`pack-objects`: put objects, named on standard input or reachable, into a new pack."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator

from impl.context import Context
from impl.errors import InvalidInput, UsageError
from impl.objects.pack_build import NewPack, write_pack
from impl.objects.pack_plan import DeltaLimits, Placement, Wanted, plan_pack
from impl.objects.read_cache import ReadCache
from impl.objects.walk import Read, Walk
from impl.objects.walk_roots import all_roots
from impl.options import Options, parse_options
from impl.porcelain.numbers import number_option
from impl.repository import Repository

_USAGE = (
    "usage: refgit pack-objects [--all [--reflog] [--indexed-objects]] [--window=N] [--depth=N]\n"
    "       [--no-reuse-delta] [--no-reuse-object] (--stdout | BASE) < NAMES"
)

PACKING_FLAGS = "no-reuse-delta no-reuse-object quiet|q progress no-progress "
PACKING_VALUES = "window depth threads "


def run(context: Context, arguments: list[str]) -> int:
    """Write the pack, and its .idx and .rev if it goes to BASE; then print its checksum.

    Raises UsageError, InvalidInput, StoreError (ObjectMissing, Corrupt), OSError.
    """
    options = parse_options(
        arguments,
        _USAGE,
        flags=PACKING_FLAGS + "all reflog indexed-objects stdout non-empty delta-base-offset",
        values=PACKING_VALUES,
    )
    to_stdout = "stdout" in options.flags
    if len(options.rest) != (0 if to_stdout else 1):
        raise UsageError(_USAGE)
    repository = context.repository
    read = reader(repository)
    everything = "all" in options.flags
    wanted = reachable(repository, read, options) if everything else _named_on_input(context)
    compress = compressor(repository)
    limits = delta_limits(repository, options)
    plan = plan_pack(wanted, repository.objects.packs, read, limits, compress)
    if to_stdout:
        write_pack(plan, read, context.output.write, repository.algorithm, compress)
    elif plan or "non-empty" not in options.flags:
        base = context.path(options.rest[0])
        context.print(_store(repository, plan, base, read, compress))
    return 0


def _store(
    repository: Repository,
    plan: dict[bytes, Placement],
    base: str,
    read: Read,
    compress: Callable[[bytes], bytes],
) -> str:
    with repository.transaction() as transaction:
        new = NewPack(transaction, base)
        pack = write_pack(plan, read, new.write, repository.algorithm, compress)
        new.stage(pack, repository.algorithm)
    repository.objects.packs.refresh()
    return pack.checksum.hex()


def reader(repository: Repository) -> Read:
    """Reads the repository's objects by binary name, and remembers some for a second time."""
    objects = repository.objects
    return ReadCache(lambda name: objects.read(name.hex()))


def compressor(repository: Repository) -> Callable[[bytes], bytes]:
    """zlib at the level of pack.compression or core.compression."""
    config = repository.config
    level = config.integer("pack.compression", config.integer("core.compression", -1))
    if not -1 <= level <= 9:
        level = -1
    return lambda content: zlib.compress(content, level)


def delta_limits(repository: Repository, options: Options) -> DeltaLimits:
    """`--window`, `--depth` and their configuration. Raises UsageError, InvalidConfiguration."""
    config = repository.config
    reuse_object = "no-reuse-object" not in options.flags
    return DeltaLimits(
        number_option(options, "window", config.integer("pack.window", DeltaLimits().window)),
        number_option(options, "depth", config.integer("pack.depth", DeltaLimits().depth)),
        reuse_delta=reuse_object and "no-reuse-delta" not in options.flags,
        reuse_object=reuse_object,
    )


def reachable(repository: Repository, read: Read, options: Options) -> Iterator[Wanted]:
    """Everything that references lead to; with `--reflog`, `--indexed-objects` what those do."""
    roots = all_roots(
        repository,
        reflogs="reflog" in options.flags,
        index="indexed-objects" in options.flags,
    )
    walk = Walk(read, repository.algorithm.size_bytes)
    for found in walk.reach(roots):
        yield Wanted(found.name, found.path)


def _named_on_input(context: Context) -> Iterator[Wanted]:
    """One object a line: its name, and after a space the path at which it was found."""
    algorithm = context.repository.algorithm
    for line in context.input:
        name, _, path = line.rstrip(b"\n").partition(b" ")
        text = name.decode("ascii", "replace")
        if not algorithm.is_name(text):
            raise InvalidInput(f"expected object ID, got garbage: {text[:80]!r}")
        yield Wanted(bytes.fromhex(text), path)
