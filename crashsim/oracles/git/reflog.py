"""Reflogs of the files backend: logs/HEAD, logs/refs/** (gitrepository-layout(5), "logs").

git appends to these files and never syncs them. A reader skips lines that do not parse without a
word, so a cut-off or NUL tail costs only the entries in it. But the next append continues the
cut-off line: the entry of the next commit or stash is then unreadable, too.
"""

import hashlib
import re
from dataclasses import dataclass

from crashsim.oracles.git.objects import ObjectFormat

ENTRY_HASH_DIGITS = 12
"""Hexadecimal digits by which a promise remembers one reflog entry."""


@dataclass(frozen=True, slots=True)
class ReflogEntry:
    """One entry: both object names in hexadecimal, and the message."""

    old: str
    new: str
    message: str

    def fingerprint(self) -> str:
        """`ENTRY_HASH_DIGITS` digits that stand for this entry in promises."""
        text = f"{self.old} {self.new} {self.message}".encode("utf-8", "surrogateescape")
        return hashlib.blake2b(text, digest_size=ENTRY_HASH_DIGITS // 2).hexdigest()


@dataclass(frozen=True, slots=True)
class Reflog:
    """A parsed reflog.

    :ivar entries: the readable ones, oldest first.
    :ivar bad_lines: how many whole lines do not parse.
    :ivar cut_off_bytes: bytes after the last newline.
    :ivar fingerprint: all entries' fingerprints, one after the other: of two logs of which one
        continues the other, this begins with the other's.
    """

    entries: tuple[ReflogEntry, ...]
    fingerprint: str
    bad_lines: int = 0
    cut_off_bytes: int = 0


def make_reflog(entries: list[ReflogEntry], bad_lines: int = 0, cut_off_bytes: int = 0) -> Reflog:
    """A reflog of these entries, oldest first."""
    fingerprint = "".join(entry.fingerprint() for entry in entries)
    return Reflog(tuple(entries), fingerprint, bad_lines, cut_off_bytes)


def parse_reflog(content: bytes, object_format: ObjectFormat) -> Reflog:
    """Parse a log file. Never fails: what does not parse is counted."""
    digits = object_format.hex_size
    pattern = re.compile(
        rb"([0-9a-fA-F]{%d}) ([0-9a-fA-F]{%d}) [^>\0]*> ([1-9]\d*) [+-]\d{4}(?:\t(.*))?"
        % (digits, digits),
        re.DOTALL,
    )
    *lines, tail = content.split(b"\n")
    entries = []
    for line in lines:
        match = pattern.fullmatch(line)
        if match:
            message = (match[4] or b"").decode("utf-8", "surrogateescape")
            entries.append(
                ReflogEntry(match[1].decode().lower(), match[2].decode().lower(), message)
            )
    return make_reflog(entries, len(lines) - len(entries), len(tail))
