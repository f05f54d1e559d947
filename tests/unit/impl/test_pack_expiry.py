"""Moments that `--expire` names: understood exactly, or refused."""

import pytest

from impl.errors import InvalidInput
from impl.porcelain.expiry import NEVER, parse_expiry

NOW = 1_700_000_000
DAY = 86400


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("never", NEVER),
        ("false", NEVER),
        ("2.weeks.ago", NOW - 14 * DAY),
        ("1 hour ago", NOW - 3600),
        ("3.days", NOW - 3 * DAY),
        ("yesterday", NOW - DAY),
        ("1600000000", 1_600_000_000),
        ("@1600000000", 1_600_000_000),
        ("2020-09-13T12:26:40Z", 1_600_000_000),
        ("2020-09-13 12:26:40", 1_600_000_000),
        ("2020-09-13T14:26:40+02:00", 1_600_000_000),
    ],
)
def test_moments(text: str, moment: int) -> None:
    assert parse_expiry(text, NOW) == moment


@pytest.mark.parametrize("text", ["now", "all", "NOW"])
def test_everything_has_expired(text: str) -> None:
    assert parse_expiry(text, NOW) > NOW + 1000 * 365 * DAY


@pytest.mark.parametrize("text", ["", "soon", "2.fortnights.ago", "-1", "2020-13-45", "1.5.days"])
def test_nothing_is_guessed(text: str) -> None:
    with pytest.raises(InvalidInput, match="malformed expiration date"):
        parse_expiry(text, NOW)
