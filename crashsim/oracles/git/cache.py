"""Parsed files, kept by the digest of their content.

Crash states of one recording share almost all of their files, so nearly everything that a check has
to parse was parsed before. A cached value must depend on nothing but the content.
"""

from collections.abc import Callable, Hashable
from typing import TypeVar, cast

Value = TypeVar("Value")


class ContentCache:
    """A bounded map from (what was parsed, content digests) to the result."""

    def __init__(self, limit_entries: int = 100_000) -> None:
        """:param limit_entries: when it holds this many results, the older half is dropped."""
        self._limit_entries = limit_entries
        self._values: dict[Hashable, object] = {}

    def get(self, key: Hashable, compute: Callable[[], Value]) -> Value:
        """The value for `key`, computed on the first call.

        `key` names the parser and the digests of everything that it reads.
        """
        try:
            return cast(Value, self._values[key])
        except KeyError:
            pass
        value = compute()
        if len(self._values) >= self._limit_entries:
            for old in list(self._values)[: self._limit_entries // 2]:
                del self._values[old]
        self._values[key] = value
        return value
