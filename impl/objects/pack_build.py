"""Building a pack: the plan carried out, and the files that go with it staged."""

import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from impl.durability.components import Component
from impl.durability.names import Publication
from impl.durability.port import Bytes, write_all
from impl.durability.staged import Staged
from impl.objects.hashes import HashAlgorithm
from impl.objects.idx import PackedEntry, encode_index
from impl.objects.pack_format import TYPE_NUMBERS
from impl.objects.pack_write import PackWriter
from impl.objects.rev import encode_reverse_index
from impl.transaction import RepoTransaction

if TYPE_CHECKING:  # What plans a pack is not needed by those who receive one.
    from impl.objects.pack_plan import Placement
    from impl.objects.walk import Read


class BuiltPack(NamedTuple):
    """A pack that has been written, not yet staged.

    :ivar checksum: its trailing one, which also names it.
    :ivar entries: its objects, in pack order.
    """

    checksum: bytes
    entries: list[PackedEntry]


def write_pack(
    plan: "dict[bytes, Placement]",
    read: "Read",
    write: Callable[[Bytes], object],
    algorithm: HashAlgorithm,
    compress: Callable[[bytes], bytes] = zlib.compress,
) -> BuiltPack:
    """Write the planned pack; every delta comes after its base.

    :param write: takes all the bytes that it is given.
    Raises StoreError for objects that cannot be read, and what `write` raises.
    """
    writer = PackWriter(write, algorithm, len(plan))
    for wanted in plan:
        waiting = [wanted]
        while waiting:
            name = waiting[-1]
            needed = plan[name].needs
            if name in writer.offsets:
                waiting.pop()
            elif needed is not None and needed not in writer.offsets:
                waiting.append(needed)
            else:
                _write_entry(writer, name, plan[name], read, compress)
                waiting.pop()
    return BuiltPack(writer.finish(), writer.entries)


def _write_entry(
    writer: PackWriter,
    name: bytes,
    placement: "Placement",
    read: "Read",
    compress: Callable[[bytes], bytes],
) -> None:
    if placement.delta is not None:
        base, size_bytes, compressed = placement.delta
        writer.add_delta(name, base, size_bytes, compressed)
        return
    if placement.source is not None:
        pack, offset = placement.source
        raw = pack.raw(pack.positions_by_offset[offset])
        if raw is not None:
            if placement.base is None:
                writer.add_whole(name, raw.header.kind, raw.header.size_bytes, raw.compressed)
            else:
                writer.add_delta(name, placement.base, raw.header.size_bytes, raw.compressed)
            return
    # Neither a delta nor a copy whose checksum holds: read whole, so verified by its name.
    type_name, content = read(name)
    writer.add_whole(name, TYPE_NUMBERS[type_name], len(content), compress(content))


def encode_reverse(pack: BuiltPack, algorithm: HashAlgorithm) -> bytes:
    """The .rev of a pack."""
    in_name_order = sorted(range(len(pack.entries)), key=lambda at: pack.entries[at].name)
    by_offset = [0] * len(in_name_order)
    for position, at in enumerate(in_name_order):
        by_offset[at] = position
    return encode_reverse_index(by_offset, pack.checksum, algorithm)


class NewPack:
    """A pack file on its way into the repository, with what goes beside it.

    `create` it, `write` the pack into it, `stage` everything; if the transaction fails instead,
    nothing of it stays.
    """

    def __init__(self, transaction: RepoTransaction, base: str) -> None:
        """
        :param base: path of the files-to-be up to the checksum: `…/objects/pack/pack`.
        """
        self._transaction = transaction
        self._base = base
        self._draft: Staged = transaction.create(
            Component.PACK,
            f"{base}-new.pack",
            prefix="tmp_pack_",
            publication=Publication.RENAME,
        )

    @property
    def descriptor(self) -> int:
        """Of the pack, open for reading and writing."""
        return self._draft.descriptor

    @property
    def temporary(self) -> str:
        """Where the pack is now."""
        return self._draft.temporary

    def write(self, data: Bytes) -> None:
        """Append to the pack. Raises OSError."""
        write_all(self._transaction.port, self._draft.descriptor, data)

    def stage(
        self, pack: BuiltPack, algorithm: HashAlgorithm, *, bitmap: bytes | None = None
    ) -> str:
        """Hand over the pack with its .rev, .bitmap and .idx; returns their common stem.

        A pack of the same name that is there already is replaced: whatever its bytes are, these
        are the right ones.
        """
        stem = f"{self._base}-{pack.checksum.hex()}"
        self._transaction.stage(self._draft._replace(final=stem + ".pack"))
        self._beside(stem + ".rev", "tmp_rev_", encode_reverse(pack, algorithm))
        if bitmap is not None:
            self._beside(stem + ".bitmap", "tmp_bitmap_", bitmap)
        index = encode_index(pack.entries, pack.checksum, algorithm)
        self._beside(stem + ".idx", "tmp_idx_", index)
        return stem

    def _beside(self, final: str, prefix: str, content: bytes) -> None:
        draft = self._transaction.create(
            Component.PACK_METADATA, final, prefix=prefix, publication=Publication.RENAME
        )
        write_all(self._transaction.port, draft.descriptor, content)
        self._transaction.stage(draft)
