"""References in files: loose ones, `packed-refs`, and reflogs below `logs/`.

How an update is written (git's order): every lock is taken, every old value checked, every new
value written into its lock file; then, when the transaction commits, each reflog gets its line
before its reference's lock file is renamed into place. Deletions come last: `packed-refs` without
the reference, then its file, then its reflog. (git removes the reflog first, so that a crash can
leave a reference without the history that it had.)
"""

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import cache

from impl.durability.components import Component
from impl.durability.names import Publication
from impl.durability.port import Port, read_file, write_all
from impl.errors import StoreError
from impl.objects.hashes import HashAlgorithm
from impl.refs.errors import CorruptReference, NameConflict, ReferenceChanged
from impl.refs.files.claims import Claims
from impl.refs.files.loose import loose_names, read_loose, remove_empty_directories
from impl.refs.files.packed import PackedFile, PackedRefs, encode_packed_refs
from impl.refs.files.together import (
    change_at_once,
    changed_packed,
    check_gathered,
    gather_files,
    is_packable,
)
from impl.refs.names import check_name, is_root, is_well_formed, printable
from impl.refs.plan import Change, View, check_object, plan
from impl.refs.reflog import (
    Identity,
    ReflogEntry,
    clean_message,
    encode_entry,
    encode_reflog,
    parse_reflog,
)
from impl.refs.store import LogPolicy, OnBroken
from impl.refs.values import Describe, RefUpdate, Value
from impl.transaction import RepoTransaction


class FilesStore:
    """See `impl.refs.store.ReferenceStore`."""

    def __init__(
        self,
        port: Port,
        git_directory: str,
        algorithm: HashAlgorithm,
        policy: LogPolicy,
        describe: Describe,
    ) -> None:
        """Nothing is read yet."""
        self.algorithm = algorithm
        self.packed = PackedFile(port, git_directory, algorithm)
        self.port = port
        self._git_directory = git_directory
        self._policy = policy
        self.describe = describe
        self._claims: Claims | None = None

    def path(self, name: str) -> str:
        """Of a loose reference."""
        return f"{self._git_directory}/{name}"

    def log_path(self, name: str) -> str:
        """Of a reflog."""
        return f"{self._git_directory}/logs/{name}"

    def read(self, name: str) -> Value | None:
        """See ReferenceStore."""
        check_name(name)
        loose = read_loose(self.port, self.path(name), name, self.algorithm)
        # Loose first: what is not there any more may have been packed meanwhile.
        return loose.value if loose.value is not None else self._packed_value(name)

    def _packed_value(self, name: str) -> str | None:
        found = self.packed.current().refs.get(name)
        return None if found is None else found.value

    def list(
        self, prefix: str = "refs/", on_broken: OnBroken | None = None
    ) -> Iterator[tuple[str, Value]]:
        """See ReferenceStore."""
        names = set(loose_names(self.port, self._git_directory, prefix))
        if not prefix.startswith("refs/"):
            names |= self._root_names(prefix)
        names.update(self.packed.current().names_from(prefix))
        for name in sorted(names, key=os.fsencode):
            try:
                value = self._read_listed(name)
            except CorruptReference as error:
                if on_broken is None:
                    raise
                on_broken(name, error)
                continue
            if value is not None:
                yield name, value

    def _read_listed(self, name: str) -> Value | None:
        if not is_root(name) and not is_well_formed(name):
            raise CorruptReference(
                f"there is a file with a name that no reference may have: {printable(name)}; "
                "move it out of refs/"
            )
        return self.read(name)

    def _root_names(self, prefix: str) -> set[str]:
        """The names beside `refs/` that are references: in capitals, and files that look like one.

        FETCH_HEAD and MERGE_HEAD are not: they may hold several object names.
        """
        names = self.port.list_directory(self._git_directory)
        roots = (name for name in names if is_root(name) and name.startswith(prefix))
        return {name for name in roots if name not in ("FETCH_HEAD", "MERGE_HEAD")}

    def has_reflog(self, name: str) -> bool:
        """See ReferenceStore."""
        check_name(name)
        try:
            return stat.S_ISREG(self.port.lstat(self.log_path(name)).st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return False

    def reflog(self, name: str) -> Sequence[ReflogEntry]:
        """See ReferenceStore."""
        check_name(name)
        try:
            content = read_file(self.port, self.log_path(name))
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return []
        return parse_reflog(content, self.algorithm, f"logs/{name}")

    def reflog_names(self) -> Sequence[str]:
        """See ReferenceStore."""
        logs = f"{self._git_directory}/logs"
        names = loose_names(self.port, logs, "refs/")
        names += [name for name in ("HEAD",) if self.has_reflog(name)]
        return sorted(
            (name for name in names if is_root(name) or is_well_formed(name)), key=os.fsencode
        )

    def apply(self, tx: RepoTransaction, updates: Sequence[RefUpdate], who: Identity) -> None:
        """See ReferenceStore."""
        claims = self.claims(tx)
        # Asked once all references are claimed: one look at `packed-refs` is as good as many. For
        # loose references below a name, `_make_room` finds a directory.
        packed_now = cache(self.packed.current)
        view = View(
            claims.claim,
            self.read,
            lambda name: packed_now().first_below(name),
            self.algorithm,
        )
        at_once = tx.atomic_references and change_at_once(updates)
        changes, together = [], []
        for change in plan(view, updates):
            if at_once and change.is_write and is_packable(change):
                self._prepare_packed(claims, change)
                together.append(change)
            else:
                self._prepare(claims, change)
            changes.append(change)
        check_gathered(self, together)
        deleted = {change.name for change in changes if change.is_deletion}
        packed = changed_packed(self, claims, deleted, together)
        for change in changes:
            self._log(tx, change, who)
        if packed is not None:
            self.stage_packed(claims, packed)
        for name in deleted:
            claims.delete(name)
            self._delete_log(tx, name)

    def _prepare(self, claims: Claims, change: Change) -> None:
        """Write a claimed reference's new value into its lock file, and close that."""
        if not change.is_write or change.after is None:
            claims.keep(change.name, change.before)
            return
        check_object(change, self.describe)
        if change.before is None:
            self._make_room(claims, change)
        claims.write(change.name, change.after)

    def _prepare_packed(self, claims: Claims, change: Change) -> None:
        """Keep others from a claimed reference that gets its new value in `packed-refs`."""
        check_object(change, self.describe)
        if change.before is None:
            self._make_room(claims, change)
        claims.keep(change.name, change.before)

    def gather(
        self,
        begin: Callable[[], AbstractContextManager[RepoTransaction]],
        updates: Sequence[RefUpdate],
    ) -> None:
        """See ReferenceStore."""
        gather_files(self, begin, updates)

    def claims(self, tx: RepoTransaction) -> Claims:
        """The locks that the transaction holds."""
        if self._claims is None or self._claims.tx is not tx:
            self._claims = Claims(tx, self._git_directory, self.algorithm, self._packed_value)
        return self._claims

    def _make_room(self, claims: Claims, change: Change) -> None:
        """Remove the empty directories that deleted references left where this one goes."""
        if change.name in claims.directories:
            self._remove_directories(change.name, self.path(change.name))
        if change.log is None:
            return
        try:
            status = self.port.lstat(self.log_path(change.name))
        except FileNotFoundError:
            return
        except NotADirectoryError as error:
            raise NameConflict(
                f"cannot create the reflog of '{change.name}': a reflog has the name of one of its "
                "directories; remove it if there is no such reference"
            ) from error
        if stat.S_ISDIR(status.st_mode):
            self._remove_directories(change.name, self.log_path(change.name))

    def _remove_directories(self, name: str, path: str) -> None:
        if not remove_empty_directories(self.port, path):
            raise NameConflict(f"cannot lock ref '{name}': there is a non-empty directory '{path}'")

    def stage_packed(self, claims: Claims, packed: PackedRefs) -> None:
        """Stage a new `packed-refs`, whose lock must be held.

        Its temporary file has a name that nobody waits for: git's own, `packed-refs.new`, blocks
        every later pack-refs if a crash leaves it behind.
        """
        draft = claims.tx.create(
            Component.REFERENCE,
            self.packed.path,
            prefix="packed-refs.tmp_",
            publication=Publication.RENAME,
            mode=0o666,
        )
        write_all(self.port, draft.descriptor, encode_packed_refs(packed))
        claims.tx.stage(draft)
        claims.packed = packed

    def _log(self, tx: RepoTransaction, change: Change, who: Identity) -> None:
        log = change.log
        if log is None or change.is_deletion:
            return
        creates = log.is_forced or self._policy.creates(change.name)
        if creates or self.has_reflog(change.name):
            entry = ReflogEntry(log.old, log.new, who, clean_message(log.message))
            tx.append(Component.REFLOG, self.log_path(change.name), encode_entry(entry))

    def _delete_log(self, tx: RepoTransaction, name: str) -> None:
        if not self.has_reflog(name):
            return
        path = self.log_path(name)
        tx.remove(path, promised=True)
        keep = {f"{self._git_directory}/logs", self.log_path("refs"), self.log_path("refs/heads")}
        while (path := os.path.dirname(path)) not in keep:
            tx.remove_directory(path)

    def edit_reflog(
        self,
        tx: RepoTransaction,
        name: str,
        before: Sequence[ReflogEntry],
        after: Sequence[ReflogEntry | None],
    ) -> None:
        """See ReferenceStore."""
        self.claims(tx).hold(name)
        if self.reflog(name) != list(before):
            raise ReferenceChanged(f"the reflog of {name} has changed meanwhile: try again")
        entries = [entry for entry in after if entry is not None]
        tx.write(Component.REFLOG, self.log_path(name), encode_reflog(entries))

    def pack(self, tx: RepoTransaction, *, everything: bool, prune: bool) -> None:
        """See ReferenceStore."""
        from impl.refs.files.packing import pack_references

        pack_references(self, tx, everything=everything, prune=prune)

    def maintain(self, begin: Callable[[], AbstractContextManager[RepoTransaction]]) -> None:
        """Nothing: loose references are packed when the user asks for it."""

    def verify(self) -> Iterator[StoreError]:
        """See ReferenceStore."""
        broken: list[StoreError] = []
        for _ in self.list("", lambda _, error: broken.append(error)):
            continue
        yield from broken
        for name in self.reflog_names():
            try:
                self.reflog(name)
            except StoreError as error:
                yield error

    def close(self) -> None:
        """See ReferenceStore."""
        self.packed.close()
