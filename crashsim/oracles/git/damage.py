"""What a file that a crash has touched can look like."""

from dataclasses import dataclass
from enum import StrEnum


class DamageKind(StrEnum):
    """How a file or object is broken. The words are the last part of rule names."""

    MISSING = "missing"
    EMPTY = "empty"
    ZEROED = "zeroed"
    CORRUPT = "corrupt"


@dataclass(frozen=True, slots=True)
class Damage:
    """One broken file or object.

    :ivar reason: what is wrong with it, as the second half of a sentence ("has a bad checksum").
    """

    kind: DamageKind
    reason: str


def classify(content: bytes, reason: str) -> Damage:
    """The damage of a file whose parser gave up for `reason`.

    Nothing in it: its data was never written, only its size of 0. All NUL: the size was written
    and the data was not. Anything else is corrupt: torn, truncated, or changed.
    """
    if not content:
        return Damage(DamageKind.EMPTY, "is empty")
    if not content.strip(b"\0"):
        return Damage(DamageKind.ZEROED, f"holds {len(content)} NUL bytes")
    return Damage(DamageKind.CORRUPT, reason)


class FormatError(Exception):
    """The content of a file is not what its format asks for. The message says where and why."""
