"""`packed-refs`: many references in one sorted text file (gitrepository-layout(5)).

# pack-refs with: peeled fully-peeled sorted
<object name> SP <reference name> LF
^<object name> LF               (what the tag above leads to)
"""

import os
import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple

from impl.durability.port import Port
from impl.objects.hashes import HashAlgorithm
from impl.refs.errors import CorruptPackedRefs
from impl.refs.watch import WatchedFile

PACKED_NAME = "packed-refs"
_TITLE = "# pack-refs with:"
_FULLY_PEELED = "fully-peeled"


class PackedRef(NamedTuple):
    """One packed reference.

    :ivar peeled: if `value` is a tag, what it leads to in the end; also None where not known.
    """

    value: str
    peeled: str | None = None


class PackedRefs:
    """The content of one `packed-refs`.

    :ivar refs: by name, in the order of their names' bytes.
    :ivar is_peeled: whether a reference without `peeled` is known to be no tag.
    """

    def __init__(self, refs: Mapping[str, PackedRef], *, is_peeled: bool) -> None:
        """`refs` must be sorted."""
        self.refs = refs
        self.is_peeled = is_peeled
        self._keys: list[bytes] | None = None

    def names_from(self, prefix: str) -> Iterable[str]:
        """The names that start with `prefix`, sorted."""
        if self._keys is None:
            self._keys = [os.fsencode(name) for name in self.refs]
        start, wanted = bisect_left(self._keys, os.fsencode(prefix)), os.fsencode(prefix)
        for key in self._keys[start:]:
            if not key.startswith(wanted):
                return
            yield os.fsdecode(key)

    def first_below(self, name: str) -> str | None:
        """A packed reference whose name continues `name` with a slash."""
        return next(iter(self.names_from(f"{name}/")), None) if self.refs else None


EMPTY = PackedRefs({}, is_peeled=True)


def parse_packed_refs(content: bytes, algorithm: HashAlgorithm, what: str) -> PackedRefs:
    """Parse the file. Raises CorruptPackedRefs, with the number of the first wrong line.

    An empty file is an error: git always writes a first line, and takes an empty one, which a
    crash leaves behind, for a repository without these references.
    """
    text = content.decode("utf-8", "surrogateescape")
    if not text:
        raise CorruptPackedRefs(
            f"{what} is empty, which git never writes: the packed references are lost; restore it "
            "from a copy or from the reflogs, or remove it if there were none"
        )
    line_end = text.find("\n") + 1
    traits: list[str] = []
    if text.startswith("#"):
        if not text.startswith(_TITLE):
            raise _corrupt(what, 1, "is not the title that git writes")
        traits = text[len(_TITLE) : line_end].split()
        text = text[line_end:]
    pattern = _line_pattern(algorithm.hex_length)
    found = pattern.findall(text)
    length = sum(
        len(value) + len(name) + 2 + (len(peeled) and len(peeled) + 2)
        for value, name, peeled in found
    )
    if length != len(text):
        raise _first_wrong_line(text, pattern, what, bool(traits))
    refs = {name: PackedRef(value, peeled or None) for value, name, peeled in found}
    if len(refs) != len(found):
        raise CorruptPackedRefs(f"{what} has a reference twice: remove one of the lines")
    if "sorted" not in traits or not _is_sorted(refs):
        refs = dict(sorted(refs.items(), key=lambda item: os.fsencode(item[0])))
    return PackedRefs(refs, is_peeled=_FULLY_PEELED in traits)


def encode_packed_refs(refs: PackedRefs) -> bytes:
    """The file with these references, which must be sorted by name."""
    peeled = " peeled fully-peeled" if refs.is_peeled else ""
    lines = [f"{_TITLE}{peeled} sorted \n"]
    for name, ref in refs.refs.items():
        lines.append(f"{ref.value} {name}\n")
        if ref.peeled is not None:
            lines.append(f"^{ref.peeled}\n")
    return "".join(lines).encode("utf-8", "surrogateescape")


def _line_pattern(length: int) -> re.Pattern[str]:
    name = f"[0-9a-f]{{{length}}}"
    return re.compile(rf"({name}) ([^\n\0 ]+)\n(?:\^({name})\n)?")


def _is_sorted(refs: Mapping[str, PackedRef]) -> bool:
    keys = [os.fsencode(name) for name in refs]
    return all(left < right for left, right in pairwise(keys))


def _first_wrong_line(
    text: str, pattern: re.Pattern[str], what: str, has_title: bool
) -> CorruptPackedRefs:
    position = 0
    while match := pattern.match(text, position):
        position = match.end()
    number = text.count("\n", 0, position) + 1 + has_title
    if "\n" not in text[position:]:
        return _corrupt(what, number, "is cut off")
    return _corrupt(what, number, "is not '<object name> <reference name>'")


def _corrupt(what: str, number: int, problem: str) -> CorruptPackedRefs:
    return CorruptPackedRefs(
        f"line {number} of {what} {problem}: correct or remove that line to keep the others"
    )


class PackedFile:
    """A repository's `packed-refs`, parsed again only when it has changed."""

    def __init__(self, port: Port, git_directory: str, algorithm: HashAlgorithm) -> None:
        """Nothing is read yet."""
        self.path = f"{git_directory}/{PACKED_NAME}"
        self._algorithm = algorithm
        self._watched = WatchedFile(port, self.path)
        self._refs = EMPTY

    def current(self) -> PackedRefs:
        """The references as they are now. Raises CorruptPackedRefs, OSError."""
        if self._watched.refresh():
            self._refs = EMPTY
            if self._watched.content is not None:
                self._refs = self._parse(self._watched.content)
        return self._refs

    def _parse(self, content: bytes) -> PackedRefs:
        try:
            return parse_packed_refs(content, self._algorithm, self.path)
        except CorruptPackedRefs:
            self._watched.forget()
            raise

    def close(self) -> None:
        """Release the descriptor."""
        self._watched.forget()
