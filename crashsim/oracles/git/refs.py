"""Refs of the files backend: loose ref files and packed-refs (gitrepository-layout(5))."""

from collections.abc import Mapping
from dataclasses import dataclass

from crashsim.oracles.git.damage import Damage, FormatError, classify
from crashsim.oracles.git.objects import ObjectFormat

SYMBOLIC = "ref: "
"""What the value of a symbolic ref begins with, here as in its file."""

_HEX = frozenset(b"0123456789abcdefABCDEF")
_SPACE = b" \t\n\r"
"""What git takes for white space (its own isspace, not that of the C library)."""


@dataclass(frozen=True, slots=True)
class PackedRefs:
    """A parsed packed-refs file.

    :ivar refs: name -> object name in hexadecimal.
    :ivar peeled: name of an annotated tag's ref -> what the tag points to.
    :ivar disorder: what is wrong with the order of the names, where the header says sorted.
    """

    refs: Mapping[str, str]
    peeled: Mapping[str, str]
    disorder: str = ""


def parse_ref_file(content: bytes, object_format: ObjectFormat) -> str | Damage:
    """The value in a loose ref's file: an object name in hexadecimal, or `ref: <name>`.

    As git reads it: white space at the end is ignored, and what follows white space after an
    object name is ignored too.
    """
    text = content.rstrip(_SPACE)
    if text.startswith(b"ref:"):
        return SYMBOLIC + text[4:].lstrip(_SPACE).decode("utf-8", "surrogateescape")
    digits = text[: object_format.hex_size]
    rest = text[object_format.hex_size :]
    whole = len(digits) == object_format.hex_size and _HEX.issuperset(digits)
    if not whole or (rest and rest[:1] not in _SPACE_OR_NUL):
        return classify(content, "holds neither an object name nor a symbolic ref")
    if not digits.strip(b"0"):
        return classify(content, "holds the null object name")
    return digits.decode("ascii").lower()


_SPACE_OR_NUL = {bytes([byte]) for byte in _SPACE + b"\0"}


def is_repository_head(content: bytes, object_format: ObjectFormat) -> bool:
    """Whether git takes a directory with this HEAD for a repository."""
    value = parse_ref_file(content, object_format)
    if isinstance(value, Damage):
        return False
    return not value.startswith(SYMBOLIC) or value.startswith(SYMBOLIC + "refs/")


def parse_packed_refs(content: bytes, object_format: ObjectFormat) -> PackedRefs | Damage:
    """Parse packed-refs. An empty file parses: git sees no packed refs in it."""
    try:
        return _parse_packed_refs(content, object_format)
    except (FormatError, UnicodeDecodeError) as error:
        return classify(content, str(error))


def _parse_packed_refs(content: bytes, object_format: ObjectFormat) -> PackedRefs:
    if content and not content.endswith(b"\n"):
        raise FormatError("has an unterminated last line")
    refs: dict[str, str] = {}
    peeled: dict[str, str] = {}
    traits: list[bytes] = []
    previous = name = b""
    disorder = ""
    for number, line in enumerate(content.split(b"\n")[:-1]):
        if number == 0 and line.startswith(b"# pack-refs with:"):
            traits = line.partition(b":")[2].split()
        elif line.startswith(b"^"):
            if not name:
                raise FormatError("has a peeled value without a ref")
            peeled[_name(name)] = _oid(line[1:], object_format)
            name = b""
        else:
            digits, space, name = line.partition(b" ")
            if not space or not name:
                raise FormatError(f"has an unexpected line {number + 1}")
            refs[_name(name)] = _oid(digits, object_format)
            if b"sorted" in traits and name <= previous:
                disorder = f"says that it is sorted, and has {_name(name)} out of order"
            previous = name
    return PackedRefs(refs, peeled, disorder)


def _name(name: bytes) -> str:
    if b"\0" in name:
        raise FormatError("has a NUL in the name of a ref")
    return name.decode("utf-8", "surrogateescape")


def _oid(digits: bytes, object_format: ObjectFormat) -> str:
    if len(digits) != object_format.hex_size or not _HEX.issuperset(digits):
        raise FormatError(f"has a bad object name {digits[:64]!r}")
    return digits.decode("ascii").lower()
