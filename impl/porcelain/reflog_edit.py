"""Taking entries out of reflogs: by age and reachability (`reflog expire`), or by number."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from impl.errors import Corrupt, ObjectMissing
from impl.porcelain.expiry import parse_expiry
from impl.porcelain.ref_changes import committer
from impl.refs.reflog import ReflogEntry
from impl.refs.store import resolve
from impl.refs.values import RefUpdate
from impl.repository import Repository


class Retention(NamedTuple):
    """Which entries are kept, in seconds since the epoch.

    :ivar oldest: entries from before are dropped.
    :ivar oldest_unreachable: and from before this, those whose commit the reference does not reach.
    """

    oldest: int
    oldest_unreachable: int

    @classmethod
    def configured(
        cls, repository: Repository, now: int, oldest: str | None, unreachable: str | None
    ) -> "Retention":
        """From the options, else from gc.reflogExpire (90 days) and …ExpireUnreachable (30)."""
        get = repository.config.get
        return cls(
            parse_expiry(oldest or get("gc.reflogexpire") or "90.days.ago", now),
            parse_expiry(unreachable or get("gc.reflogexpireunreachable") or "30.days.ago", now),
        )


def expire(
    repository: Repository,
    names: Sequence[str],
    retention: Retention,
    *,
    rewrite: bool = False,
    update_reference: bool = False,
    dry_run: bool = False,
) -> None:
    """Drop what is not to be kept from the reflogs, in one transaction: all are synced at once.

    Raises LockHeld, Corrupt, ReferenceChanged; nothing is dropped then.
    """
    with repository.transaction():
        for name in names:
            entries = repository.references.reflog(name)
            kept = _kept(repository, name, entries, retention)
            if all(kept) or dry_run:
                continue
            _edit(repository, name, entries, kept, rewrite, update_reference)


def delete_entries(
    repository: Repository,
    name: str,
    numbers: Collection[int],
    *,
    rewrite: bool = False,
    update_reference: bool = False,
) -> None:
    """Drop entries by number, 0 being the newest; numbers that are not there are passed over.

    Raises LockHeld, Corrupt, ReferenceChanged.
    """
    entries = repository.references.reflog(name)
    kept = [len(entries) - 1 - number not in numbers for number in range(len(entries))]
    if not all(kept):
        _edit(repository, name, entries, kept, rewrite, update_reference)


def _edit(
    repository: Repository,
    name: str,
    entries: Sequence[ReflogEntry],
    kept: Sequence[bool],
    rewrite: bool,
    update_reference: bool,
) -> None:
    """Drop the entries that are not kept.

    :param rewrite: make each entry start where the one before it, that is kept, ends.
    :param update_reference: set the reference to the newest entry that is kept.
    """
    before = repository.algorithm.null
    after: list[ReflogEntry | None] = []
    for entry, is_kept in zip(entries, kept, strict=True):
        if not is_kept:
            after.append(None)
            continue
        after.append(entry._replace(old=before) if rewrite else entry)
        before = entry.new
    references = repository.references
    with repository.transaction() as transaction:
        left = [entry for entry in after if entry is not None]
        is_direct = isinstance(references.read(name), str)
        if update_reference and left and is_direct:
            update = RefUpdate(name, left[-1].new, no_deref=True, skip_reflog=True)
            references.apply(transaction, [update], committer(repository))
        references.edit_reflog(transaction, name, entries, after)


def _kept(
    repository: Repository, name: str, entries: Sequence[ReflogEntry], retention: Retention
) -> list[bool]:
    reached: set[str] | None = None
    kept = []
    for entry in entries:
        is_kept = entry.who.seconds >= retention.oldest
        if is_kept and entry.who.seconds < retention.oldest_unreachable:
            if reached is None:
                reached = _reached(repository, name)
            null = repository.algorithm.null
            is_kept = all(one in reached for one in (entry.old, entry.new) if one != null)
        kept.append(is_kept)
    return kept


def _reached(repository: Repository, name: str) -> set[str]:
    """The commits that the reference reaches; for HEAD, that any reference does, as in git."""
    references = repository.references
    tips = [resolve(references, name).object_name]
    if name == "HEAD":
        tips += [value for _, value in references.list() if isinstance(value, str)]
    return commits_from(repository, [tip for tip in tips if tip is not None])


def commits_from(repository: Repository, tips: Sequence[str]) -> set[str]:
    """The commits that can be reached from the tips, themselves included; what is none is passed
    over, and so is history that is missing."""
    reached: set[str] = set()
    waiting = list(tips)
    while waiting:
        name = waiting.pop()
        if name in reached:
            continue
        try:
            commit = repository.objects.commit(name)
        except (ObjectMissing, Corrupt):
            continue
        reached.add(name)
        waiting += commit.parents
    return reached
