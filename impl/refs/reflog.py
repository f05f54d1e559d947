"""Reflogs: entries, and the format of files below `logs/` (a line an entry, oldest first)."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from impl.objects.hashes import HashAlgorithm
from impl.refs.errors import CorruptReflog

_IDENTITY = rb"(?P<name>[^<>\n\0]*?) ?<(?P<email>[^<>\n\0]*)> (?P<time>\d+) (?P<zone>[+-]\d{4,5})"


class Identity(NamedTuple):
    """Who changed a reference, and when.

    :ivar seconds: since 1970.
    :ivar zone: the offset from UTC as git writes it, as a number: 200 for +0200, -930 for -0930.
    """

    name: bytes
    email: bytes
    seconds: int
    zone: int

    def __bytes__(self) -> bytes:
        """As in commits and reflogs: `Name <email> seconds zone`."""
        return b"%s <%s> %d %+05d" % (self.name, self.email, self.seconds, self.zone)


class ReflogEntry(NamedTuple):
    """One change of a reference; the null object name stands for its absence.

    :ivar message: one line, without its newline; may be empty.
    """

    old: str
    new: str
    who: Identity
    message: bytes


def parse_identity(text: bytes) -> Identity | None:
    """The parts of `Name <email> seconds zone`; None if it does not have that form."""
    match = re.fullmatch(_IDENTITY, text)
    if match is None:
        return None
    return Identity(match["name"], match["email"], int(match["time"]), int(match["zone"]))


def clean_message(message: str) -> bytes:
    """A message as reflogs keep it: on one line, runs of white space collapsed to one space."""
    return b" ".join(message.encode("utf-8", "surrogateescape").split())


def encode_entry(entry: ReflogEntry) -> bytes:
    """The line of an entry, with its newline."""
    line = b"%s %s %s" % (entry.old.encode(), entry.new.encode(), bytes(entry.who))
    return line + (b"\t" + entry.message if entry.message else b"") + b"\n"


def encode_reflog(entries: Sequence[ReflogEntry]) -> bytes:
    """The file of a whole reflog, from entries in their order in the file: oldest first."""
    return b"".join(map(encode_entry, entries))


def parse_reflog(content: bytes, algorithm: HashAlgorithm, what: str) -> list[ReflogEntry]:
    """The entries of a reflog file, oldest first.

    `what` names the file in messages. Raises CorruptReflog for a line that is not one: git skips
    such lines without a word, and so shows a history that did not happen.
    """
    if not content:
        return []
    *lines, rest = content.split(b"\n")
    if rest:
        raise _corrupt(what, len(lines) + 1, "is cut off")
    return [_parse_line(line, algorithm, what, number) for number, line in enumerate(lines, 1)]


def _parse_line(line: bytes, algorithm: HashAlgorithm, what: str, number: int) -> ReflogEntry:
    length = algorithm.hex_length
    head, _, message = line.partition(b"\t")
    old, new = head[:length].decode("latin-1"), head[length + 1 : 2 * length + 1].decode("latin-1")
    blanks = head[length : length + 1] + head[2 * length + 1 : 2 * length + 2]
    who = parse_identity(head[2 * length + 2 :])
    if who is None or blanks != b"  " or not algorithm.is_name(old) or not algorithm.is_name(new):
        raise _corrupt(what, number, "is not '<old> <new> <who> <when>[<tab><message>]'")
    return ReflogEntry(old, new, who, message)


def _corrupt(what: str, number: int, problem: str) -> CorruptReflog:
    return CorruptReflog(
        f"line {number} of the reflog {what} {problem}: delete that line to keep the others"
    )
