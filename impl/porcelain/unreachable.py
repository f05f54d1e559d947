"""Unreachable objects of packs that are about to go: kept loose while they are young."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from impl.durability.components import Component
from impl.durability.port import write_all
from impl.objects.loose import deflate, loose_path
from impl.objects.pack_file import Pack
from impl.objects.pack_format import TYPE_NAMES
from impl.repository import Repository


def loosen(
    repository: Repository, packs: Sequence[Pack], kept: Collection[str], after: int
) -> None:
    """Store, as loose files, what is in `packs` and not in `kept`, with its pack's time.

    :param kept: names of objects that are elsewhere now.
    :param after: packs that are not newer (seconds since the epoch) are passed over: their
        unreachable objects have expired.
    Raises Corrupt, OSError.
    """
    objects = repository.objects
    with repository.transaction() as transaction:
        for pack in packs:
            modified_ns = pack.modified_ns()
            if modified_ns // 1_000_000_000 <= after:
                continue
            for name, offset in zip(pack.index.names, pack.index.offsets, strict=True):
                path = loose_path(objects.directory, name.hex())
                if name.hex() in kept or transaction.current(path) != path:
                    continue
                kind, content = pack.read(offset, name)
                draft = transaction.create(Component.LOOSE_OBJECT, path)
                write_all(repository.port, draft.descriptor, deflate(TYPE_NAMES[kind], content))
                repository.port.set_times(draft.descriptor, modified_ns, modified_ns)
                transaction.stage(draft)
