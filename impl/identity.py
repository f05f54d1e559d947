"""Who is at work, and when: `GIT_AUTHOR_…`, `GIT_COMMITTER_…`, user.name and user.email."""

import re
import time
from typing import TYPE_CHECKING

from impl.errors import InvalidInput
from impl.refs.reflog import Identity

if TYPE_CHECKING:
    from impl.repository import Repository

_RAW_DATE = re.compile(r"@?(\d{1,15})(?: ([+-]\d{4}))?")
_CRUD = "".join(map(chr, range(33))) + ".,:;<>\"\\'"
"""What git strips off both ends of a name or address."""


class UnknownIdentity(InvalidInput):
    """No name or address is known of whoever is at work."""


def identity(repository: "Repository", role: str) -> Identity:
    """The `author` or the `committer`.

    From the environment (GIT_<ROLE>_NAME, _EMAIL, _DATE), then `<role>.name` and `user.name`.
    Raises UnknownIdentity if there is no name or address, InvalidInput for a malformed date.
    """
    environment, config = repository.environment, repository.config
    prefix = f"GIT_{role.upper()}_"

    def find(what: str) -> str:
        found = (
            environment.get(f"{prefix}{what.upper()}")
            or config.get(f"{role}.{what}")
            or config.get(f"user.{what}")
            or (environment.get("EMAIL") if what == "email" else None)
        )
        if not found:
            raise UnknownIdentity(
                f"{role.capitalize()} identity unknown: tell who you are with -c user.{what}=… "
                f"or {prefix}{what.upper()}"
            )
        return found

    seconds, zone = _date(environment.get(f"{prefix}DATE"), repository.now_ns() // 10**9)
    return Identity(_clean(find("name")), _clean(find("email")), seconds, zone)


def _clean(text: str) -> bytes:
    kept = "".join(character for character in text.strip(_CRUD) if character not in "<>\n\0")
    return kept.encode("utf-8", "surrogateescape")


def _date(text: str | None, now_seconds: int) -> tuple[int, int]:
    """Seconds since the epoch, and the zone as a number (+0200 is 200)."""
    if not text:
        return now_seconds, _local_zone(now_seconds)
    match = _RAW_DATE.fullmatch(text.strip())
    if match is not None:
        seconds = int(match[1])
        return seconds, int(match[2]) if match[2] else _local_zone(seconds)
    from datetime import datetime  # Rarely needed, and slow to import.

    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InvalidInput(
            f"invalid date format: {text}: write 'SECONDS +ZONE', or an ISO 8601 date and time"
        ) from None
    seconds = int(moment.timestamp())
    offset = moment.utcoffset()
    if offset is None:
        return seconds, _local_zone(seconds)
    return seconds, _zone_number(int(offset.total_seconds()))


def _local_zone(seconds: int) -> int:
    return _zone_number(time.localtime(seconds).tm_gmtoff)


def _zone_number(offset_seconds: int) -> int:
    minutes = abs(offset_seconds) // 60
    number = minutes // 60 * 100 + minutes % 60
    return -number if offset_seconds < 0 else number
