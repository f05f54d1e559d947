"""Options whose value is a number."""

from __future__ import annotations

from impl.config import as_integer
from impl.errors import InvalidConfiguration, UsageError
from impl.options import Options


def number_option(options: Options, name: str, default: int) -> int:
    """An option's value, with git's suffixes k, m and g; `default` if it was not given.

    Raises UsageError for anything but a number from 0 on.
    """
    text = options.value(name)
    if text is None:
        return default
    try:
        number = as_integer(f"--{name}", text)
    except InvalidConfiguration:
        number = -1
    if number < 0:
        raise UsageError(f"error: option '--{name}' expects a number from 0 on, not '{text}'")
    return number
