"""`repack`: what is reachable into one pack, then what that makes superfluous removed.

Order: .pack, .rev, .bitmap, .idx, then the multi-pack-index; only when all of them are in place
(and durable, as the method says) old packs and loose objects go.
"""

from typing import NamedTuple

from impl.context import Context
from impl.errors import UsageError
from impl.objects.bitmap_build import NotClosed
from impl.objects.bitmap_walk import Reachable, bitmap_file, walk_everything
from impl.objects.loose import loose_names
from impl.objects.midx_build import IndexedPack, indexed
from impl.objects.midx_write import BitmapWish, lock_midx, remove_midx, stage_midx
from impl.objects.pack_build import BuiltPack, NewPack, write_pack
from impl.objects.pack_file import Pack
from impl.objects.pack_plan import Wanted, plan_pack
from impl.objects.pack_removal import remove_packed_loose, remove_packs
from impl.objects.walk_roots import all_roots
from impl.options import Options, parse_options
from impl.porcelain.expiry import parse_expiry
from impl.porcelain.pack_objects import (
    PACKING_FLAGS,
    PACKING_VALUES,
    compressor,
    delta_limits,
    reader,
)
from impl.porcelain.server_info import stage_server_info
from impl.porcelain.unreachable import loosen
from impl.repository import Repository
from impl.transaction import RepoTransaction

_USAGE = (
    "usage: refgit repack [-a | -A [--unpack-unreachable=WHEN]] [-d] [-f] [-F] [-l] [-n] [-q]\n"
    "       [-k] [-b] [--write-midx] [--window=N] [--depth=N]"
)


class Plan(NamedTuple):
    """What one repack is to do, in git's letters.

    :ivar everything: `-a` or `-A`: one pack of all that is reachable; otherwise of what is loose.
    :ivar loosen_after: with `-A`: unreachable packed objects whose packs are newer (in seconds
        since the epoch) become loose; None: all unreachable ones in removed packs are dropped.
    :ivar keep_unreachable: `-k`: they go into the new pack instead.
    :ivar remove: `-d`. :ivar local: `-l`: objects of alternates are left to them.
    :ivar bitmap: `-b`. :ivar midx: `--write-midx`. :ivar server_info: not `-n`.
    """

    everything: bool = False
    loosen_after: int | None = None
    keep_unreachable: bool = False
    remove: bool = False
    local: bool = False
    bitmap: bool = False
    midx: bool = False
    server_info: bool = True


def run(context: Context, arguments: list[str]) -> int:
    """Repack. Raises UsageError, LockHeld, Corrupt, ObjectMissing, OSError."""
    options = parse_options(
        arguments,
        _USAGE,
        flags=PACKING_FLAGS + "a A d f F l n keep-unreachable|k write-bitmap-index|b "
        "no-write-bitmap-index write-midx|m",
        values=PACKING_VALUES + "unpack-unreachable",
    )
    if options.rest:
        raise UsageError(_USAGE)
    repository = context.repository
    given = options.flags
    if "f" in given:
        given |= {"no-reuse-delta"}
    if "F" in given:
        given |= {"no-reuse-object"}
    bitmap = "write-bitmap-index" in given or repository.config.boolean(
        "repack.writebitmaps", False
    )
    plan = Plan(
        everything=bool(given & {"a", "A"}),
        loosen_after=_loosen_after(context, given, options),
        keep_unreachable="keep-unreachable" in given,
        remove="d" in given,
        local="l" in given,
        bitmap=bitmap and "no-write-bitmap-index" not in given,
        midx="write-midx" in given,
        server_info="n" not in given and repository.config.boolean("repack.updateserverinfo", True),
    )
    if plan.bitmap and not plan.everything and not plan.midx:
        raise UsageError("incremental repacks are incompatible with bitmap indexes: add -a")
    created = repack(context, plan, options._replace(flags=given))
    if not created and "quiet" not in given:
        context.print("Nothing new to pack.")
    return 0


def _loosen_after(context: Context, given: frozenset[str], options: Options) -> int | None:
    if "A" not in given:
        return None
    when = options.value("unpack-unreachable")
    return 0 if when is None else parse_expiry(when, context.now())


def repack(context: Context, plan: Plan, options: Options) -> bool:
    """Carry a plan out; whether there was anything to pack. Raises as `run` does."""
    repository = context.repository
    store = repository.objects.packs
    with repository.transaction() as transaction:
        midx_lock = lock_midx(transaction, store) if plan.midx else None
        store.refresh()
        run_ = _Repack(context, repository, transaction, plan)
        created = run_.pack(options)
        if midx_lock is not None:
            packs = run_.remaining_packs()
            if packs:
                wish = run_.bitmap_wish() if plan.bitmap else None
                stage_midx(
                    transaction,
                    midx_lock,
                    store,
                    packs,
                    preferred=run_.new_index_name if plan.bitmap else None,
                    bitmap=wish,
                )
            else:
                transaction.discard(midx_lock)
        if plan.remove:
            run_.remove_superfluous()
        if plan.server_info:
            stage_server_info(repository, transaction, run_.pack_names())
    store.refresh()
    return created


class _Repack:
    """One repack under way."""

    def __init__(
        self,
        context: Context,
        repository: Repository,
        transaction: RepoTransaction,
        plan: Plan,
    ) -> None:
        self._context = context
        self._repository = repository
        self._transaction = transaction
        self._plan = plan
        self._read = reader(repository)
        self._store = repository.objects.packs
        self._old = self._store.packs()
        self._kept = {pack.stem for pack in self._old if pack.has(".keep")}
        self._tips = all_roots(repository, reflogs=False, index=False)
        roots = all_roots(repository, reflogs=True, index=True)
        self._reached: Reachable = walk_everything(
            self._read, roots, repository.algorithm.size_bytes, for_bitmap=plan.bitmap
        )
        self._new: BuiltPack | None = None
        self._new_stem: str | None = None

    @property
    def new_index_name(self) -> str | None:
        """The file name of the new pack's .idx."""
        return None if self._new_stem is None else self._new_stem.rpartition("/")[2] + ".idx"

    def pack(self, options: Options) -> bool:
        """Write and stage the new pack; False if there is nothing for it."""
        wanted = self._wanted()
        if not wanted:
            return False
        repository, algorithm = self._repository, self._repository.algorithm
        compress = compressor(repository)
        limits = delta_limits(repository, options)
        plan = plan_pack(wanted, self._store, self._read, limits, compress)
        new = NewPack(self._transaction, f"{self._store.directory}/pack")
        self._new = write_pack(plan, self._read, new.write, algorithm, compress)
        bitmap = self._bitmap(self._new) if self._plan.bitmap and not self._plan.midx else None
        self._new_stem = new.stage(self._new, algorithm, bitmap=bitmap)
        return True

    def _wanted(self) -> list[Wanted]:
        skipped: set[bytes] = set()
        for pack in self._old:
            in_the_way = pack.stem in self._kept and not self._plan.bitmap
            if in_the_way or not self._plan.everything:
                skipped.update(pack.index.names)
        if self._plan.local:
            for source in self._repository.objects.sources[1:]:
                for pack in source.packs.packs():
                    skipped.update(pack.index.names)
                port, algorithm = self._repository.port, self._repository.algorithm
                loose = loose_names(port, source.directory, algorithm)
                skipped.update(bytes.fromhex(name) for name in loose)
        wanted = [wish for wish in self._reached.wanted if wish.name not in skipped]
        if self._plan.keep_unreachable and self._plan.everything:
            known = {wish.name for wish in wanted} | skipped
            for pack in self._old:
                wanted += [Wanted(name) for name in pack.index.names if name not in known]
        return wanted

    def _bitmap(self, pack: BuiltPack) -> bytes | None:
        order = [entry.name for entry in pack.entries]
        try:
            return bitmap_file(
                self._reached,
                order,
                pack.checksum,
                self._tips,
                self._read,
                self._repository.algorithm,
            )
        except NotClosed as error:
            self._context.warn(f"no bitmap is written: {error}")
            return None

    def bitmap_wish(self) -> BitmapWish:
        """What a multi-pack-index needs for its own bitmap."""
        return BitmapWish(self._reached, self._tips, self._read)

    def _superfluous(self) -> list[Pack]:
        """Old packs of which all that matters is in the new one."""
        if not (self._plan.everything and self._plan.remove):
            return []
        return [
            pack
            for pack in self._old
            if pack.stem not in self._kept and pack.stem != self._new_stem
        ]

    def remaining_packs(self) -> list[IndexedPack]:
        """What there will be when this is over, the new pack among it."""
        gone = {pack.stem for pack in self._superfluous()}
        packs = [
            indexed(pack)
            for pack in self._old
            if pack.stem not in gone and pack.stem != self._new_stem
        ]
        if self._new is not None and self.new_index_name is not None:
            objects = [(entry.name, entry.offset) for entry in self._new.entries]
            now_ns = self._repository.now_ns()
            packs.append(IndexedPack(self.new_index_name, now_ns, objects))
        return packs

    def pack_names(self) -> list[str]:
        """The .pack files that there will be."""
        return [pack.index_name[: -len(".idx")] + ".pack" for pack in self.remaining_packs()]

    def remove_superfluous(self) -> None:
        """Old packs, and loose objects that are packed now; unreachable ones loosened before."""
        superfluous = self._superfluous()
        fresh = set() if self._new is None else {entry.name.hex() for entry in self._new.entries}
        if self._plan.loosen_after is not None:
            loosen(self._repository, superfluous, fresh, self._plan.loosen_after)
        midx = self._store.midx
        if midx is not None and not self._plan.midx:
            named = set(midx.pack_names)
            if any(f"{pack.name}.idx" in named for pack in superfluous):
                remove_midx(self._transaction, self._store)
        remove_packs(self._transaction, superfluous)
        gone = {pack.stem for pack in superfluous}
        staying = [pack for pack in self._old if pack.stem not in gone]

        def is_packed(name: str) -> bool:
            return name in fresh or _is_whole_in(staying, bytes.fromhex(name))

        directory = self._repository.objects.directory
        remove_packed_loose(self._transaction, directory, self._repository.algorithm, is_packed)


def _is_whole_in(packs: list[Pack], name: bytes) -> bool:
    """Whether one of the packs has the object and it can be read: it is all that will be left."""
    for pack in packs:
        position = pack.index.names.find(name)
        if position is not None and pack.is_whole(name, position):
            return True
    return False
