"""Repositories of the reference store, driven in this process, to test references with."""

import hashlib
import os
from pathlib import Path

from impl.context import Context
from impl.durability.port import OsPort, Port
from impl.objects.hashes import SHA1, SHA256
from impl.porcelain import init
from impl.refs.reflog import Identity
from impl.refs.reftable.records import LogChange, LogRecord, RefRecord
from impl.refs.store import ReferenceStore
from impl.refs.values import RefUpdate
from impl.repository import Location, Repository

WHO = Identity(b"Ann Author", b"ann@example.org", 1_700_000_000, 130)
FORMATS = ("files", "reftable")
ALGORITHMS = (SHA1, SHA256)
TEMPORARY = (".lock", "tmp_", ".temp.", ".new")


class RefsRepository:
    """A repository with four commits and a tag.

    :ivar commits: names of commits, each the parent of the next.
    :ivar tag: the name of an annotated tag of the first commit.
    """

    def __init__(
        self,
        directory: Path,
        reference_format: str,
        hash_name: str = "sha1",
        *,
        port: Port | None = None,
        environment: dict[str, str] | None = None,
    ) -> None:
        self.directory = directory
        self.port = OsPort() if port is None else port
        self.environment = {} if environment is None else environment
        os.makedirs(directory, exist_ok=True)
        arguments = ["-q", "--ref-format", reference_format, "--object-format", hash_name]
        init.run(Context(self.port, str(directory), (), {}), [*arguments, str(directory)])
        self.repository = self.open()
        with self.repository.transaction():
            self.commits = self._commits()
            content = f"object {self.commits[0]}\ntype commit\ntag v1\ntagger A <a> 1 +0000\n\nt\n"
            self.tag = self.repository.objects.write("tag", content.encode())

    @property
    def git_directory(self) -> Path:
        """Of the repository."""
        return self.directory / ".git"

    @property
    def references(self) -> ReferenceStore:
        """The references."""
        return self.repository.references

    def open(self) -> Repository:
        """The same repository as another process sees it."""
        location = Location(str(self.git_directory), str(self.directory))
        return Repository(self.port, location, (), self.environment)

    def apply(self, *updates: RefUpdate) -> None:
        """Make the updates, in one transaction, as commands do."""
        with self.repository.transaction() as transaction:
            self.references.apply(transaction, updates, WHO)
        self.references.maintain(self.repository.transaction)

    def pack(self, *, everything: bool = True, prune: bool = True) -> None:
        """`pack-refs --all`."""
        with self.repository.transaction() as transaction:
            self.references.pack(transaction, everything=everything, prune=prune)

    def values(self) -> dict[str, object]:
        """Every reference, HEAD included."""
        return dict(self.references.list(""))

    def messages(self, name: str) -> list[bytes]:
        """The messages of a reflog, oldest first."""
        return [entry.message for entry in self.references.reflog(name)]

    def leftovers(self) -> list[str]:
        """Locks and temporary files that are still there."""
        files = (path for path in self.git_directory.rglob("*") if path.is_file())
        return [path.name for path in files if any(part in path.name for part in TEMPORARY)]

    def _commits(self) -> list[str]:
        objects = self.repository.objects
        tree = objects.write("tree", b"")
        names: list[str] = []
        for number in range(4):
            parents = "".join(f"parent {name}\n" for name in names[-1:])
            who = "A <a> 1 +0000"
            text = f"tree {tree}\n{parents}author {who}\ncommitter {who}\n\n{number}\n"
            names.append(objects.write("commit", text.encode(), bulk=False))
        return names


def sample_records(
    count: int, size_bytes: int = 20, index: int = 7
) -> tuple[list[RefRecord], list[LogRecord]]:
    """References and reflog entries for a table, sorted, of every kind."""
    refs, logs = [], []
    for number in range(count):
        name = b"refs/heads/b%06d" % number
        value = hashlib.sha256(name).digest()[:size_bytes]
        kinds = (
            RefRecord(name, index, value),
            RefRecord(name, index, value, value[::-1]),
            RefRecord(name, index, target=b"refs/heads/x"),
            RefRecord(name, index),
        )
        refs.append(kinds[number % 4 if number % 7 == 0 else 0])
        change = LogChange(
            bytes(size_bytes), value, b"Ann", b"ann@example.org", 1_700_000_000, -930, b"m\n"
        )
        logs.append(LogRecord(name, index, None if number % 5 == 1 else change))
    return refs, logs
