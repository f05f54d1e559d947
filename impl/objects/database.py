"""The object database: loose objects and packs, this repository's and its alternates'."""

import os
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from impl.durability.components import Component
from impl.durability.names import Publication
from impl.durability.port import read_descriptor, read_file
from impl.errors import Corrupt, CorruptObject, InvalidName, ObjectMissing
from impl.objects.hashes import Readable
from impl.objects.loose import (
    DEFAULT_COMPRESSION,
    deflate,
    inflate,
    loose_names,
    loose_path,
    read_loose,
)
from impl.objects.model import Commit, TreeEntry, parse_commit, parse_tree
from impl.objects.packs import PackStore

if TYPE_CHECKING:
    from impl.repository import Repository

_ALTERNATES_DEPTH_MAX = 5
_SHORTEST_PREFIX = 4


class Source(NamedTuple):
    """One directory of objects."""

    directory: str
    packs: PackStore


class ObjectDatabase:
    """Reads and stores objects. Object names are hexadecimal text.

    Whatever is read has been checked against its name. Whatever is stored is staged in the
    repository's open transaction, and can be read back at once.
    """

    def __init__(self, repository: "Repository") -> None:
        """Of one repository; nothing is read yet."""
        self._repository = repository
        self._port = repository.port
        self.algorithm = repository.algorithm
        self.directory = f"{repository.git_directory}/objects"

    @cached_property
    def sources(self) -> list[Source]:
        """This repository's objects first, then its alternates' (objects/info/alternates)."""
        return self._sources(self.directory, 0)

    def _sources(self, directory: str, depth: int) -> list[Source]:
        found = [Source(directory, PackStore(self._port, directory, self.algorithm))]
        if depth > _ALTERNATES_DEPTH_MAX:
            return found
        try:
            lines = read_file(self._port, f"{directory}/info/alternates").splitlines()
        except FileNotFoundError:
            return found
        for line in lines:
            if line and not line.startswith(b"#"):
                target = os.path.normpath(os.path.join(directory, os.fsdecode(line)))
                if all(target != source.directory for source in found):
                    found += self._sources(target, depth + 1)
        return found

    @cached_property
    def empty_tree(self) -> str:
        """The name of the tree without entries, which every repository has, stored or not."""
        return self.algorithm.object_name("tree", b"")

    @property
    def packs(self) -> PackStore:
        """The packs of this repository itself."""
        return self.sources[0].packs

    def read(self, name: str) -> tuple[str, bytes]:
        """An object's type and content. Raises ObjectMissing, or Corrupt if no copy is whole."""
        damage: Corrupt | None = None
        for source in self.sources:
            try:
                found = self._read_from(source, name)
            except Corrupt as error:
                damage = error
                continue
            if found is not None:
                return found
        if damage is not None:
            raise damage
        if name == self.empty_tree:
            return "tree", b""
        raise ObjectMissing(name)

    def _read_from(self, source: Source, name: str) -> tuple[str, bytes] | None:
        """From the packs that are known, else a loose file, else packs made since."""
        damage: Corrupt | None = None
        try:
            if source.packs.contains(name) and (packed := source.packs.read(name)) is not None:
                return packed
        except Corrupt as error:
            damage = error
        try:
            path = self._staged_path(loose_path(source.directory, name))
            if (loose := read_loose(self._port, path, name, self.algorithm)) is not None:
                return loose
        except CorruptObject as error:
            damage = error
        if damage is not None:
            raise damage
        return source.packs.read(name)

    def _staged_path(self, path: str) -> str:
        transaction = self._repository.open_transaction
        return path if transaction is None else transaction.current(path)

    def read_as(self, name: str, type_name: str) -> bytes:
        """The content of an object that must be of a type. Raises CorruptObject, ObjectMissing."""
        found, content = self.read(name)
        if found != type_name:
            raise CorruptObject(f"object {name} is a {found}, not a {type_name}")
        return content

    def commit(self, name: str) -> Commit:
        """A commit. Raises CorruptObject, ObjectMissing."""
        return parse_commit(self.read_as(name, "commit"), name, self.algorithm)

    def tree(self, name: str) -> list[TreeEntry]:
        """A tree's entries. Raises CorruptObject, ObjectMissing."""
        return parse_tree(self.read_as(name, "tree"), name, self.algorithm)

    def contains(self, name: str) -> bool:
        """Whether the object is there *and whole*: it is read."""
        try:
            self.read(name)
        except (ObjectMissing, Corrupt):
            return False
        return True

    def exists(self, name: str) -> bool:
        """Whether there is a file, or an entry in a pack's index, of that name. Not read."""
        for source in self.sources:
            if source.packs.contains(name):
                return True
            path = self._staged_path(loose_path(source.directory, name))
            try:
                if self._port.stat(path).st_size > 0:
                    return True
            except FileNotFoundError:
                continue
        return any(source.packs.locate(bytes.fromhex(name)) for source in self.sources)

    def write(self, type_name: str, content: Readable, *, bulk: bool = True) -> str:
        """Store an object; its name. It must be called within a transaction of the repository.

        :param bulk: False for what is not one of many (git: commit objects and tags).
        """
        name = self.algorithm.object_name(type_name, content)
        self.store(name, type_name, content, bulk=bulk)
        return name

    def store(self, name: str, type_name: str, content: Readable, *, bulk: bool = True) -> None:
        """`write` of an object whose name has been made of its content already.

        What is there already is read: a file that is empty, cut off or otherwise wrong, as a
        crash leaves it, is replaced. A whole one is kept, with its time renewed for `prune`.
        """
        with self._repository.transaction() as transaction:
            path = loose_path(self.directory, name)
            if transaction.is_staged(path):
                return
            there = self._check_there(path, name)
            if there or (there is None and self._is_packed(name)):
                return
            if not bulk:
                transaction.settle()
            publication = Publication.LINK if there is None else Publication.RENAME
            transaction.write(
                Component.LOOSE_OBJECT,
                path,
                deflate(type_name, content, self._compression),
                publication=publication,
                bulk=bulk,
            )

    @cached_property
    def _compression(self) -> int:
        config = self._repository.config
        level = config.integer(
            "core.loosecompression", config.integer("core.compression", DEFAULT_COMPRESSION)
        )
        return level if -1 <= level <= 9 else DEFAULT_COMPRESSION

    def _check_there(self, path: str, name: str) -> bool | None:
        """Whether a loose file is whole; None if there is none."""
        try:
            descriptor = self._port.open(path, os.O_RDONLY)
        except FileNotFoundError:
            return None
        try:
            inflate(read_descriptor(self._port, descriptor), name, self.algorithm)
            seconds = self._repository.now_ns()
            self._port.set_times(descriptor, seconds, seconds)
        except CorruptObject:
            return False
        except PermissionError:
            return True  # Another user's file: whole, only not ours to renew.
        finally:
            self._port.close(descriptor)
        return True

    def _is_packed(self, name: str) -> bool:
        """Whether a pack, or an alternate, has the object whole."""
        for source in self.sources:
            try:
                if source.packs.contains(name) and source.packs.read(name) is not None:
                    return True
                if source.directory != self.directory:
                    path = loose_path(source.directory, name)
                    if read_loose(self._port, path, name, self.algorithm) is not None:
                        return True
            except Corrupt:
                continue
        return False

    def names(self) -> Iterator[str]:
        """The names of all objects, some of them more than once."""
        for source in self.sources:
            yield from loose_names(self._port, source.directory, self.algorithm)
            yield from source.packs.names()

    def find(self, prefix: str) -> str:
        """The one object whose name starts with `prefix` (four digits at least).

        Raises InvalidName if there is none, or more than one.
        """
        if self.algorithm.is_name(prefix):
            return prefix
        if len(prefix) < _SHORTEST_PREFIX or prefix.strip("0123456789abcdef"):
            raise InvalidName(f"Not a valid object name {prefix}")
        found: set[str] = set()
        for source in self.sources:
            found |= set(loose_names(self._port, source.directory, self.algorithm, prefix))
            found |= source.packs.names_starting(prefix)
        if len(found) != 1:
            how = "is ambiguous" if found else "names no object"
            raise InvalidName(f"short object name {prefix} {how}")
        return found.pop()
