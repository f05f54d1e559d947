"""What is synced and how, from a repository's configuration, by git's own rules.

Sources: git-config(1) on core.fsync, core.fsyncMethod and core.fsyncObjectFiles; where git's
behaviour differs from its manual, the behaviour (git 2.39 to 2.55) is what is kept here.
"""

import sys
from collections.abc import Callable, Iterable
from typing import NamedTuple

from impl.durability.components import GIT_COMPONENTS, Component
from impl.errors import InvalidConfiguration

_NAMED: tuple[tuple[str, Component], ...] = (
    ("loose-object", Component.LOOSE_OBJECT),
    ("pack", Component.PACK),
    ("pack-metadata", Component.PACK_METADATA),
    ("commit-graph", Component.COMMIT_GRAPH),
    ("index", Component.INDEX),
    ("objects", Component.LOOSE_OBJECT | Component.PACK),
    ("reference", Component.REFERENCE),
    ("derived-metadata", Component.PACK_METADATA | Component.COMMIT_GRAPH),
    ("committed", Component.LOOSE_OBJECT | Component.PACK | Component.REFERENCE),
    (
        "added",
        Component.LOOSE_OBJECT | Component.PACK | Component.REFERENCE | Component.INDEX,
    ),
    ("all", GIT_COMPONENTS),
)
"""Names and aggregates. An item selects every name that it is a prefix of."""

_GENERIC = Component.PACK | Component.PACK_METADATA | Component.COMMIT_GRAPH

Warn = Callable[[str], None]


class Policy(NamedTuple):
    """What to sync and how.

    :ivar components: the kinds of files that are to be made durable.
    :ivar method: the name of the fsync method.
    :ivar always_loose: `core.fsyncObjectFiles=true`: loose objects even if not in `components`.
    """

    components: Component
    method: str
    always_loose: bool = False

    def wants(self, component: Component) -> bool:
        """Whether files of this kind are to be made durable. Reflogs and state never are."""
        if component is Component.LOOSE_OBJECT and self.always_loose:
            return True
        return component in self.components


def platform_default(platform: str = sys.platform) -> Policy:
    """What git does where nothing is configured (its compat/ headers), by `sys.platform`."""
    if platform in ("win32", "cygwin", "msys"):
        return Policy(_GENERIC | Component.LOOSE_OBJECT, "batch")
    if platform == "darwin":
        return Policy(_GENERIC, "writeout-only")
    return Policy(_GENERIC, "fsync")


def parse_components(value: str, default: Component, warn: Warn) -> Component:
    """The components that one value of `core.fsync` selects.

    (default without the negatives) plus the positives: so a negative never cancels a positive of
    the same value, and order does not matter. `none` counts only as the last item, and clears
    the default, not the positives. An unknown item is warned about and left out.
    """
    base = default
    positive = negative = Component(0)
    rest = value
    while rest := rest.lstrip(", \t\n\r"):
        if rest == "none":
            base = Component(0)
            break
        item, _, rest = rest.partition(",")
        name = item.removeprefix("-")
        if not name:
            warn(f"invalid value for variable core.fsync: '{item}'")
            continue
        found = Component(0)
        for known, components in _NAMED:
            if known.startswith(name):
                found |= components
        if not found:
            warn(f"ignoring unknown core.fsync component '{name}'")
        elif item.startswith("-"):
            negative |= found
        else:
            positive |= found
    return (base & ~negative) | positive


def policy_from(
    entries: Iterable[tuple[str, str | None]],
    known_method: Callable[[str], bool],
    warn: Warn,
    default: Policy | None = None,
) -> Policy:
    """The policy that configuration entries (lower-case key, value) make, the last of each winning.

    :param known_method: whether a name of `core.fsyncMethod` is one; others are warned about.
    Raises InvalidConfiguration for a value that is missing or not a boolean.
    """
    start = default or platform_default()
    components, method = start.components, start.method
    loose: str | None = None
    for key, value in entries:
        if key == "core.fsync":
            text = _present(key, value)
            components = (
                parse_components(text, start.components, warn) if text else start.components
            )
        elif key == "core.fsyncmethod":
            text = _present(key, value)
            if known_method(text):
                method = text
            else:
                warn(f"ignoring unknown core.fsyncMethod value '{text}'")
        elif key == "core.fsyncobjectfiles":
            if loose is None:
                warn("core.fsyncObjectFiles is deprecated; use core.fsync instead")
            loose = "true" if value is None else value.lower()
    if loose is None:
        return Policy(components, method)
    if loose in ("2", "batch"):
        # The spelling of the 2021 proposal, in which this one key said both what and how.
        return Policy(components | Component.LOOSE_OBJECT, "bulk-rename")
    return Policy(components, method, always_loose=_boolean("core.fsyncObjectFiles", loose))


def _present(key: str, value: str | None) -> str:
    if value is None:
        raise InvalidConfiguration(f"missing value for '{key}': write {key} = VALUE")
    return value


def _boolean(key: str, value: str) -> bool:
    if value in ("true", "yes", "on") or (value.lstrip("+-").isdecimal() and int(value) != 0):
        return True
    if value in ("false", "no", "off", "") or value.lstrip("+-").isdecimal():
        return False
    raise InvalidConfiguration(f"bad boolean value '{value}' for '{key}': use true or false")
