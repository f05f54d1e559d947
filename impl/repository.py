"""A repository: where it is, what its configuration says, and the pieces that it is made of."""

import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from impl.config import Configuration, Scope, load_configuration
from impl.durability.method import FsyncMethod
from impl.durability.policy import Policy, policy_from
from impl.durability.port import Port, read_file
from impl.durability.registry import load_method, method_location
from impl.errors import NotARepository, TransactionFailed, UnsupportedRepository
from impl.objects.hashes import HashAlgorithm, algorithm_named
from impl.transaction import RepoTransaction

if TYPE_CHECKING:
    from impl.objects.database import ObjectDatabase
    from impl.refs.store import ReferenceStore

_EXTENSIONS = frozenset({"noop", "objectformat", "refstorage", "preciousobjects"})
"""What this store knows of gitrepository-layout's `extensions.*`, in lower case."""


class Location(NamedTuple):
    """Where a repository is.

    :ivar git_directory: with HEAD, objects and refs in it.
    :ivar work_tree: the files' root; None for a bare repository.
    """

    git_directory: str
    work_tree: str | None


class Repository:
    """One repository, as one command sees it.

    :ivar port: the door to the operating system; everything goes through it.
    :ivar git_directory: with HEAD, objects and refs in it; no slash at its end.
    :ivar work_tree: the root of the files; None for a bare repository.
    :ivar environment: the variables that git reads too (GIT_AUTHOR_DATE, …).
    """

    def __init__(
        self,
        port: Port,
        location: Location,
        overrides: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """
        :param overrides: `KEY=VALUE` settings that come before all others (`-c`).
        Raises UnsupportedRepository, InvalidConfiguration, OSError.
        """
        self.port = port
        self.git_directory = location.git_directory
        self.work_tree = location.work_tree
        self.environment: Mapping[str, str] = {} if environment is None else environment
        self.config: Configuration = load_configuration(
            port, location.git_directory, overrides, self.environment
        )
        self._check_format()
        self._transaction: RepoTransaction | None = None

    def _check_format(self) -> None:
        version = self.config.integer("core.repositoryformatversion", 0)
        if version not in (0, 1):
            raise UnsupportedRepository(
                f"Expected git repo version <= 1, found {version} in {self.git_directory}"
            )
        for entry in self.config.entries:
            section, _, name = entry.key.partition(".")
            if section != "extensions" or entry.scope is not Scope.REPOSITORY:
                continue
            if version == 1 and name not in _EXTENSIONS:
                raise UnsupportedRepository(
                    f"unknown repository extension found: {name} in {self.git_directory}"
                )
            if version == 0 and name in ("objectformat", "refstorage"):
                raise UnsupportedRepository(
                    f"repo version is 0, but v1-only extension found: {name}"
                )

    @cached_property
    def algorithm(self) -> HashAlgorithm:
        """What names this repository's objects. Raises UnsupportedRepository."""
        return algorithm_named(self.config.get("extensions.objectformat") or "sha1")

    @cached_property
    def reference_format(self) -> str:
        """`files` or `reftable`. Raises UnsupportedRepository."""
        name = self.config.get("extensions.refstorage") or "files"
        if name not in ("files", "reftable"):
            raise UnsupportedRepository(f"unknown ref storage format '{name}'")
        return name

    @cached_property
    def policy(self) -> Policy:
        """What to sync and how, as configured. Warns as git does."""
        commanded = {entry.value for entry in self.config.entries if entry.scope is Scope.COMMAND}

        def known(name: str) -> bool:
            if ":" in name:
                return name in commanded
            return method_location(name) is not None

        pairs = ((entry.key, entry.value) for entry in self.config.entries)
        return policy_from(pairs, known, _warn)

    @cached_property
    def method(self) -> type[FsyncMethod]:
        """The class of the configured fsync method. Raises InvalidConfiguration."""
        return load_method(method_location(self.policy.method) or self.policy.method)

    @cached_property
    def objects(self) -> "ObjectDatabase":
        """Loose objects, packs, and those of alternates."""
        from impl.objects.database import ObjectDatabase

        return ObjectDatabase(self)

    @cached_property
    def references(self) -> "ReferenceStore":
        """The references, in whichever format they are kept."""
        from impl.refs.store import open_references

        return open_references(self)

    @property
    def index_path(self) -> str:
        """Where the index is: GIT_INDEX_FILE, or `index` in the repository."""
        return self.environment.get("GIT_INDEX_FILE") or f"{self.git_directory}/index"

    def now_ns(self) -> int:
        """The time in nanoseconds since the epoch."""
        return time.time_ns()

    @property
    def open_transaction(self) -> RepoTransaction | None:
        """The transaction that is open now, if any."""
        return self._transaction

    @contextmanager
    def transaction(self) -> Iterator[RepoTransaction]:
        """Join the open transaction, or open one: then the end of the block commits it.

        An exception, of a joined block too, aborts the whole: nothing of it becomes visible.
        """
        transaction = self._transaction
        if transaction is not None:
            transaction.depth += 1
            try:
                yield transaction
            except BaseException:
                transaction.is_doomed = True
                raise
            finally:
                transaction.depth -= 1
            return
        transaction = RepoTransaction(self.port, self.git_directory, self.policy, self.method)
        transaction.depth = 1
        self._transaction = transaction
        try:
            yield transaction
            if transaction.is_doomed:
                raise TransactionFailed("a part of this transaction failed: nothing was changed")
            transaction.commit()
        except BaseException as cause:
            for failure in transaction.abort(cause):
                _warn(f"cannot remove {failure.filename}: {failure.strerror}")
            raise
        finally:
            self._transaction = None

    def maintain(self) -> None:
        """At the end of a command: keep the references in shape, if they were used at all."""
        if "references" in self.__dict__:
            self.references.maintain(self.transaction)


def _warn(message: str) -> None:
    sys.stderr.write(f"warning: {message}\n")


def discover(port: Port, directory: str, environment: Mapping[str, str]) -> Location:
    """Find the repository that `directory` is in, as git does. Raises NotARepository.

    GIT_DIR and GIT_WORK_TREE come first; then `.git` (a directory, or a file that points to one)
    in the directory or above it; or the directory may be a bare repository.
    """
    if git_directory := environment.get("GIT_DIR"):
        path = os.path.join(directory, git_directory)
        if not is_git_directory(port, path):
            raise NotARepository(f"not a git repository: '{path}'")
        work_tree = environment.get("GIT_WORK_TREE")
        return Location(path, os.path.join(directory, work_tree or "."))
    current = directory
    while True:
        beside = os.path.join(current, ".git")
        if is_git_directory(port, beside):
            return Location(beside, current)
        if (pointed := _pointed_to(port, beside)) is not None:
            return Location(pointed, current)
        if is_git_directory(port, current):
            return Location(current, None)
        parent = os.path.dirname(current)
        if parent == current:
            raise NotARepository(
                f"not a git repository (or any of the parent directories): {directory}: "
                "run init first, or give the directory with -C"
            )
        current = parent


def is_git_directory(port: Port, path: str) -> bool:
    """Whether a directory looks like a repository: HEAD, objects and refs are there."""
    try:
        port.lstat(f"{path}/HEAD")
        port.stat(f"{path}/objects")
        port.stat(f"{path}/refs")
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _pointed_to(port: Port, path: str) -> str | None:
    """Where a `.git` file (`gitdir: PATH`) points; None if there is no such file."""
    try:
        content = read_file(port, path)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    prefix = b"gitdir: "
    if not content.startswith(prefix):
        raise NotARepository(f"invalid gitfile format: {path}: it must say 'gitdir: PATH'")
    target = os.path.join(os.path.dirname(path), os.fsdecode(content[len(prefix) :].rstrip(b"\n")))
    if not is_git_directory(port, target):
        raise NotARepository(f"not a git repository: {target} (named in {path})")
    try:
        port.stat(f"{target}/commondir")
    except FileNotFoundError:
        return target
    raise UnsupportedRepository(f"{target} is a linked worktree, which this store does not know")
