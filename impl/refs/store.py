"""The references of a repository: one protocol, two formats (files, reftable).

What is read is what is visible: updates of an open transaction appear when it commits.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, NamedTuple, Protocol

from impl.objects.hashes import HashAlgorithm
from impl.refs.errors import ReferenceMissing
from impl.refs.plan import resolve_name
from impl.refs.reflog import Identity, ReflogEntry
from impl.refs.values import Describe, ObjectFacts, RefUpdate, Value

if TYPE_CHECKING:
    from impl.errors import StoreError
    from impl.repository import Repository
    from impl.transaction import RepoTransaction

OnBroken = Callable[[str, "StoreError"], None]
"""Told of a reference that cannot be read: its name and why."""


class LogPolicy(NamedTuple):
    """Which references get a reflog: `core.logAllRefUpdates` (git-config(1)).

    :ivar creates_logs: for branches, remote-tracking branches, notes and HEAD.
    :ivar is_always: for every reference.
    """

    creates_logs: bool = True
    is_always: bool = False

    def creates(self, name: str) -> bool:
        """Whether a reference that has no reflog gets one when it is updated."""
        if self.is_always or not self.creates_logs:
            return self.is_always
        return name == "HEAD" or name.startswith(("refs/heads/", "refs/remotes/", "refs/notes/"))


class ReferenceStore(Protocol):
    """One repository's references. Names are text, undecodable bytes as `os.fsdecode` has them.

    Every method raises InvalidReferenceName for a name that no reference may have, a `Corrupt`
    for a damaged file, and OSError.
    """

    algorithm: HashAlgorithm

    def read(self, name: str) -> Value | None:
        """A reference's own value; None if there is no such reference."""

    def list(
        self, prefix: str = "refs/", on_broken: OnBroken | None = None
    ) -> Iterator[tuple[str, Value]]:
        """References whose name starts with `prefix`, sorted by name; with "", HEAD and so on too.

        A broken one is left out and reported to `on_broken`; without that, it is raised.
        """

    def has_reflog(self, name: str) -> bool:
        """Whether the reference has a reflog, be it empty."""

    def reflog(self, name: str) -> Sequence[ReflogEntry]:
        """A reference's changes, oldest first; empty if it has no reflog."""

    def reflog_names(self) -> Sequence[str]:
        """The references that have a reflog, sorted."""

    def apply(self, tx: "RepoTransaction", updates: Sequence[RefUpdate], who: Identity) -> None:
        """Lock, check and stage all of the updates; they appear when the transaction commits.

        Raises before anything is staged: LockHeld, ReferenceChanged (an old value is not what
        its update demands), NameConflict, SymbolicLoop, UnsupportedUpdate.
        """

    def gather(
        self,
        begin: "Callable[[], AbstractContextManager[RepoTransaction]]",
        updates: Sequence[RefUpdate],
    ) -> None:
        """Make it possible that these references change at once (`RepoTransaction.
        atomic_references`), in a transaction of its own that `begin` opens and that changes no
        value. To be called when no transaction is open. Raises LockHeld.
        """

    def edit_reflog(
        self,
        tx: "RepoTransaction",
        name: str,
        before: Sequence[ReflogEntry],
        after: Sequence[ReflogEntry | None],
    ) -> None:
        """Replace the entries of a reflog one by one, None deleting, if it still is `before`.

        The reflog itself stays, empty if need be. To be called after `apply`, where the reference
        changes in the same transaction. Raises ReferenceChanged, LockHeld.
        """

    def pack(self, tx: "RepoTransaction", *, everything: bool, prune: bool) -> None:
        """Bring the references into their compact form: `git pack-refs [--all] [--no-prune]`.

        Not to be nested into a transaction that changes references. Raises LockHeld.
        """

    def maintain(self, begin: "Callable[[], AbstractContextManager[RepoTransaction]]") -> None:
        """Keep the format in shape after a transaction, in one more that `begin` opens.

        To be called when no transaction is open. Does nothing most times; may be left out.
        """

    def verify(self) -> Iterator["StoreError"]:
        """Read everything; what is wrong with it."""

    def close(self) -> None:
        """Release what is held open."""


class Resolved(NamedTuple):
    """Where a name leads: the last reference, and the object's name if that one exists."""

    name: str
    object_name: str | None


def resolve(store: ReferenceStore, name: str) -> Resolved:
    """Follow symbolic references from `name`. Raises SymbolicLoop, and what `read` raises."""
    return Resolved(*resolve_name(store.read, name))


def resolve_existing(store: ReferenceStore, name: str) -> str:
    """The name of the object that a reference leads to. Raises ReferenceMissing."""
    found = resolve(store, name).object_name
    if found is None:
        raise ReferenceMissing(f"there is no reference {name}")
    return found


def open_references(repository: "Repository") -> ReferenceStore:
    """The store of the repository's format."""
    port, directory, algorithm = repository.port, repository.git_directory, repository.algorithm
    policy, describe = _log_policy(repository), _describe(repository)
    if repository.reference_format == "reftable":
        from impl.refs.reftable.stack import options_from
        from impl.refs.reftable.store import ReftableStore

        options = options_from(repository.environment)
        return ReftableStore(port, directory, algorithm, policy, describe, options)
    from impl.refs.files.store import FilesStore

    return FilesStore(port, directory, algorithm, policy, describe)


def _log_policy(repository: "Repository") -> LogPolicy:
    setting = repository.config.get("core.logallrefupdates")
    if setting is not None and setting.lower() == "always":
        return LogPolicy(is_always=True)
    default = repository.work_tree is not None
    return LogPolicy(repository.config.boolean("core.logallrefupdates", default))


def _describe(repository: "Repository") -> Describe:
    known: dict[str, ObjectFacts] = {}

    def peeled(tag: str) -> str:
        from impl.revisions import peel

        return peel(repository, tag, "")

    def describe(name: str) -> ObjectFacts:
        if name not in known:
            type_name, _ = repository.objects.read(name)
            known[name] = ObjectFacts(type_name, peeled(name) if type_name == "tag" else None)
        return known[name]

    return describe
