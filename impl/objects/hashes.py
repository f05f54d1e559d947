"""The two hash algorithms of git repositories: `extensions.objectFormat`."""

import hashlib
from collections.abc import Callable
from typing import NamedTuple, Protocol

from impl.errors import UnsupportedRepository

Readable = bytes | bytearray | memoryview


class Hasher(Protocol):
    """A running digest, as in hashlib."""

    def update(self, data: Readable, /) -> None:
        """Take in more bytes."""

    def digest(self) -> bytes:
        """The digest of everything so far."""

    def hexdigest(self) -> str:
        """The same in lower-case hexadecimal."""


class HashAlgorithm(NamedTuple):
    """What names objects, and what checksums files, in one repository.

    :ivar name: as git spells it: `sha1`, `sha256`.
    :ivar size_bytes: length of a digest.
    :ivar new: starts a digest, of the bytes given or of nothing.
    :ivar format_identifier: four bytes that stand for it in reftables (git's hash format_id).
    :ivar index_version: its number in pack .rev, multi-pack-index and commit-graph headers.
    """

    name: str
    size_bytes: int
    new: Callable[..., Hasher]
    format_identifier: bytes
    index_version: int

    @property
    def hex_length(self) -> int:
        """Characters of an object name."""
        return 2 * self.size_bytes

    @property
    def null(self) -> str:
        """The object name of all zeros, which stands for none."""
        return "0" * self.hex_length

    def is_name(self, text: str) -> bool:
        """Whether the text is a whole object name, in lower-case hexadecimal."""
        return len(text) == self.hex_length and not text.strip("0123456789abcdef")

    def object_name(self, type_name: str, content: Readable) -> str:
        """The name of an object: the digest of `<type> <length>` NUL `<content>`."""
        hasher = self.new(b"%s %d\0" % (type_name.encode("ascii"), len(content)))
        hasher.update(content)
        return hasher.hexdigest()


SHA1 = HashAlgorithm("sha1", 20, hashlib.sha1, b"sha1", 1)
SHA256 = HashAlgorithm("sha256", 32, hashlib.sha256, b"s256", 2)


def algorithm_named(name: str) -> HashAlgorithm:
    """The algorithm that `extensions.objectFormat` or `--object-format` names.

    Raises UnsupportedRepository for any other name.
    """
    for algorithm in (SHA1, SHA256):
        if algorithm.name == name:
            return algorithm
    raise UnsupportedRepository(f"unknown hash algorithm '{name}': sha1 and sha256 are known")
