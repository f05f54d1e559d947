"""Moments in the past, as `--expire` and `gc.*Expire` name them."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from impl.errors import InvalidInput

NEVER = 0
"""Nothing is old enough: the epoch."""

_SECONDS = {
    "second": 1,
    "minute": 60,
    "hour": 3600,
    "day": 86400,
    "week": 7 * 86400,
    "month": 30 * 86400,
    "year": 365 * 86400,
}
_AGO = re.compile(r"(\d+)[. ](second|minute|hour|day|week|month|year)s?([. ]ago)?")
_FOREVER = 2**62


def parse_expiry(text: str, now: int) -> int:
    """The moment in seconds since the epoch; what is older has expired.

    Knows `now` and `all` (everything has expired), `never` and `false` (nothing has), `N.days.ago`
    and the like (months of 30 days, years of 365), seconds since the epoch, and ISO 8601.

    Raises InvalidInput for anything else: guessing would delete what was to be kept.
    """
    words = text.strip().lower()
    if words in ("now", "all"):
        return _FOREVER
    if words in ("never", "false"):
        return NEVER
    if words == "yesterday":
        return now - _SECONDS["day"]
    if match := _AGO.fullmatch(words):
        return now - int(match[1]) * _SECONDS[match[2]]
    if words.removeprefix("@").isdecimal():
        return int(words.removeprefix("@"))
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InvalidInput(
            f"malformed expiration date '{text}': use now, never, 2.weeks.ago or an ISO date"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp())
