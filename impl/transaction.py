"""RepoTransaction: the one place that decides when anything becomes visible, and when it is synced.

Every writer hands over what it wrote and says what it is (a component) and where it is to appear.
In which moment it is synced is the fsync method's choice (`impl.durability.method`). In which order
things happen is this module's: objects, packs with each .idx last, the multi-pack-index, the index,
reflogs, references; then removals. The transaction's end is the only place that promises anything.

If a transaction fails, its temporary files and locks are removed. What was already visible stays:
up to the references that is only what nothing refers to yet. But if what failed is a sync, objects
that this transaction has just made visible go away again: their pages may be lost and look well
until a reboot, and whoever stores the same content next would take them for stored.
"""

import os
from collections.abc import Sequence
from functools import partial

from impl.appends import Appends
from impl.durability.components import (
    OBJECT_COMPONENTS,
    Component,
    Phase,
    object_rank,
    phase_of,
)
from impl.durability.method import FsyncMethod
from impl.durability.names import (
    LOCK_SUFFIX,
    Names,
    Publication,
    remove_directory_if_empty,
    try_each,
    unlink_if_there,
)
from impl.durability.policy import Policy
from impl.durability.port import Bytes, Port, write_all
from impl.durability.staged import Staged
from impl.errors import SyncFailed


class RepoTransaction:
    """What one command changes in a repository. Made by `Repository.transaction`.

    :ivar port: the door to the operating system.
    :ivar policy: what is to be synced.
    :ivar git_directory: the repository's directory.
    :ivar names: makes unused names and directories.
    :ivar depth: how many operations are nested in it.
    :ivar is_doomed: whether a nested operation failed, so that it cannot be committed.
    """

    def __init__(
        self, port: Port, git_directory: str, policy: Policy, method: type[FsyncMethod]
    ) -> None:
        """Nothing is written before a writer asks for it."""
        self.port = port
        self.policy = policy
        self.git_directory = git_directory
        self.depth = 0
        self.is_doomed = False
        self._drafts: dict[str, Staged] = {}
        self._pending: dict[str, Staged] = {}
        self._locks: dict[str, None] = {}
        self._appends = Appends()
        self._removals: dict[str, bool] = {}
        self._new_objects: list[str] = []
        self._is_referred_to = False
        self._empty_directories: list[str] = []
        self.names = Names(port)
        self._method = method(self)

    # What writers call.

    def create(
        self,
        component: Component,
        final: str,
        *,
        prefix: str = "tmp_obj_",
        publication: Publication = Publication.LINK,
        bulk: bool = True,
        mode: int = 0o444,
    ) -> Staged:
        """Make an empty temporary file for `final`, open for reading and writing.

        Its name is `prefix` and a few characters, in the directory where the method wants it;
        missing directories are made. Raises OSError.
        """
        home = self._method.home(component, final, bulk)
        directory = home[: home.rfind("/") + 1]
        temporary, descriptor = self.names.create_unused(directory + prefix, mode)
        draft = Staged(component, temporary, final, descriptor, publication, bulk)
        self._drafts[temporary] = draft
        return draft

    def lock(self, component: Component, final: str, *, mode: int = 0o666) -> Staged:
        """Create `final`.lock, which is to replace `final`: to be written, and then staged.

        A lock that this transaction holds is taken over; a file that it has staged for `final`
        before is written anew.
        Raises LockHeld if the lock is another's.
        """
        temporary = final + LOCK_SUFFIX
        earlier = self._pending.pop(final, None)
        if temporary in self._locks:
            del self._locks[temporary]
            descriptor = self.port.open(temporary, os.O_RDWR)
        elif earlier is not None and earlier.temporary == temporary:
            descriptor = self.port.open(temporary, os.O_RDWR | os.O_TRUNC)
        else:
            descriptor = self.names.create_lock(temporary, mode)
        draft = Staged(component, temporary, final, descriptor, Publication.RENAME, bulk=False)
        self._drafts[temporary] = draft
        return draft

    def hold(self, final: str) -> None:
        """Create `final`.lock, empty, and keep it to the end: nobody else changes `final`.

        Raises LockHeld if the lock is another's; a lock of this transaction is enough.
        """
        lock = final + LOCK_SUFFIX
        if lock in self._locks or lock in self._drafts or final in self._pending:
            return
        descriptor = self.names.create_lock(lock, 0o666)
        self._locks[lock] = None
        self.port.close(descriptor)

    def stage(self, staged: Staged) -> None:
        """Take over a complete file, from `create` or `lock`, or made by the writer itself."""
        self._drafts[staged.temporary] = staged
        at_once = self._method.staged(staged)
        self._drafts[staged.temporary] = staged._replace(descriptor=-1)
        self.port.close(staged.descriptor)
        temporary = staged.temporary
        home = self._method.home(staged.component, staged.final, staged.bulk)
        if home != staged.final:
            self._drafts[home] = staged._replace(temporary=home, descriptor=-1)
            self.names.give(staged.temporary, home, staged.publication)
            del self._drafts[home]
            staged = staged._replace(temporary=home)
        earlier = self._pending.pop(staged.final, None)
        if earlier is not None and earlier.temporary != staged.temporary:
            unlink_if_there(self.port, earlier.temporary)
        if at_once:
            self._publish(staged)
        else:
            self._pending[staged.final] = staged
        del self._drafts[temporary]

    def discard(self, draft: Staged) -> None:
        """Give up a file from `create` or `lock`: it, or the lock, is gone at once."""
        self._drafts[draft.temporary] = draft._replace(descriptor=-1)
        self.port.close(draft.descriptor)
        unlink_if_there(self.port, draft.temporary)
        del self._drafts[draft.temporary]

    def write(
        self,
        component: Component,
        final: str,
        content: Bytes,
        *,
        publication: Publication = Publication.RENAME,
        bulk: bool = True,
    ) -> None:
        """Write one file whose content is at hand: makes a temporary, writes it, stages it.

        Objects and packs get a temporary name of their own, everything else is locked (LockHeld).
        """
        if component in OBJECT_COMPONENTS:
            draft = self.create(component, final, publication=publication, bulk=bulk)
        else:
            draft = self.lock(component, final)
        write_all(self.port, draft.descriptor, content)
        self.stage(draft)

    def append(self, component: Component, path: str, line: bytes) -> None:
        """Append to a file (a reflog) before any reference of this transaction appears."""
        self._appends.add(path, line)

    def remove(self, path: str, *, promised: bool = False) -> None:
        """Unlink a file once everything staged is visible, and durable if the method says so.

        :param promised: its absence is what is being recorded (a deleted reference), so that it
            has to be durable itself; False for what has merely become superfluous.
        """
        self._removals[path] = self._removals.get(path, False) or promised

    def remove_directory(self, path: str) -> None:
        """Remove a directory after the files, if it is empty then."""
        self._empty_directories.append(path)

    def is_staged(self, final: str) -> bool:
        """Whether this transaction has a file staged that is to be published there."""
        return final in self._pending

    def current(self, final: str) -> str:
        """Where the content staged for `final` can be read now: its temporary or final path."""
        staged = self._pending.get(final)
        return final if staged is None else staged.temporary

    @property
    def atomic_references(self) -> bool:
        """Whether the method wants several references to appear at once."""
        return self._method.atomic_references

    def settle(self) -> None:
        """Say that what refers to the objects staged so far is about to be written.

        They appear now if the method wants them to, as git ends its object transaction.
        """
        if self._method.objects_first:
            self._publish_phase(Phase.OBJECTS)

    def restored(self, root: str, paths: Sequence[bytes]) -> None:
        """Say that files of the working tree are about to be the only copy of their content."""
        self._method.restored(root, paths)

    # What only the method asks for.

    def open_lock(self, component: Component) -> int | None:
        """The descriptor of a lock of this kind that is held and not yet staged, if any."""
        for draft in self._drafts.values():
            if draft.component is component and draft.temporary.endswith(LOCK_SUFFIX):
                return draft.descriptor
        return None

    # What the repository calls.

    def commit(self) -> None:
        """Publish everything, in order, synced as the method says. Raises SyncFailed, OSError."""
        self._appends.stage(self, in_place=self._method.appends_in_place)
        for phase in Phase:
            self._publish_phase(phase)
        removals = list(self._removals)
        self._method.removing(removals)
        for path in removals:
            unlink_if_there(self.port, path)
        for directory in self._empty_directories:
            remove_directory_if_empty(self.port, directory)
        self._method.removed([path for path, promised in self._removals.items() if promised])
        for failure in self._release():
            raise failure

    def abort(self, cause: BaseException) -> list[OSError]:
        """Remove what is not visible: temporaries, quarantine, locks; the errors on the way.

        :param cause: why; after SyncFailed, objects that nothing can refer to yet go, too.
        """
        failures = self._release()
        if isinstance(cause, SyncFailed) and not self._is_referred_to:
            failures += try_each(partial(unlink_if_there, self.port), self._new_objects)
        try:
            self._method.aborted()
        except OSError as error:
            failures.append(error)
        return failures

    # Inside.

    def _publish_phase(self, phase: Phase) -> None:
        files = [file for file in self._pending.values() if phase_of(file.component) is phase]
        if phase is Phase.OBJECTS:
            files.sort(key=lambda file: object_rank(file.component, file.final))
        elif phase is Phase.REFERENCES:
            files.sort(key=lambda file: file.component is not Component.REFLOG)
        self._method.publishing(phase, files)
        self._is_referred_to = self._is_referred_to or (phase is not Phase.OBJECTS and bool(files))
        if phase is Phase.REFERENCES:
            self._appends.write(self.names)
        for file in files:
            self._publish(file)
            del self._pending[file.final]
        self._method.published(phase, files)

    def _publish(self, file: Staged) -> None:
        is_new = self.names.give(file.temporary, file.final, file.publication)
        if is_new and file.component is Component.LOOSE_OBJECT:
            self._new_objects.append(file.final)

    def _release(self) -> list[OSError]:
        """Close and remove all that is not published; the errors, which stop nothing.

        What could not be removed is tried again by the next call.
        """
        opened = [draft.descriptor for draft in self._drafts.values() if draft.descriptor >= 0]
        failures = try_each(self.port.close, opened)
        staged = [file.temporary for file in self._pending.values()]
        paths = [*self._drafts, *staged, *self._locks]
        self._drafts.clear()
        self._pending.clear()
        self._locks = dict.fromkeys(paths)
        return failures + try_each(self._unlink_and_forget, paths)

    def _unlink_and_forget(self, path: str) -> None:
        unlink_if_there(self.port, path)
        self._locks.pop(path, None)
