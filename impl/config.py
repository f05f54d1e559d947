"""git's configuration: files, `-c KEY=VALUE` and the environment, as git-config(1) describes it.

Keys are `section.name` or `section.subsection.name`, with section and name in lower case. Later
entries win. `include.path` is followed; conditional includes (`includeIf`) are not.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from impl.config_syntax import parse_configuration
from impl.durability.port import Port, read_file
from impl.errors import InvalidConfiguration

_INCLUDE_DEPTH_MAX = 10
_UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


class Scope(IntEnum):
    """Where an entry comes from, the weakest first."""

    SYSTEM = 0
    GLOBAL = 1
    REPOSITORY = 2
    COMMAND = 3


class Entry(NamedTuple):
    """One setting; a value of None is a key without `=`, which is true as a boolean."""

    key: str
    value: str | None
    scope: Scope


class Configuration:
    """All entries that apply, in order."""

    def __init__(self, entries: Sequence[Entry] = ()) -> None:
        """Of the entries that apply, the strongest last."""
        self.entries = tuple(entries)

    def get(self, key: str) -> str | None:
        """The last value, or None if there is none. Raises InvalidConfiguration for a bare key."""
        for entry in reversed(self.entries):
            if entry.key == key:
                if entry.value is None:
                    raise InvalidConfiguration(f"missing value for '{key}'")
                return entry.value
        return None

    def all(self, key: str) -> list[str | None]:
        """Every value, in order."""
        return [entry.value for entry in self.entries if entry.key == key]

    def boolean(self, key: str, default: bool) -> bool:
        """The last value as a boolean. Raises InvalidConfiguration."""
        for entry in reversed(self.entries):
            if entry.key == key:
                return as_boolean(key, entry.value)
        return default

    def integer(self, key: str, default: int) -> int:
        """The last value as a whole number, perhaps with k, m, g. Raises InvalidConfiguration."""
        value = self.get(key)
        return default if value is None else as_integer(key, value)


def as_boolean(key: str, value: str | None) -> bool:
    """git's booleans: true, yes, on, a number other than 0, or no value at all; and opposites."""
    if value is None or value.lower() in ("true", "yes", "on"):
        return True
    if value.lower() in ("false", "no", "off", ""):
        return False
    try:
        return as_integer(key, value) != 0
    except InvalidConfiguration:
        raise InvalidConfiguration(
            f"bad boolean config value '{value}' for '{key}': use true or false"
        ) from None


def as_integer(key: str, value: str) -> int:
    """A whole number, perhaps with k, m or g behind it."""
    unit = _UNITS.get(value[-1:].lower(), 1)
    digits = value if unit == 1 else value[:-1]
    if not digits.lstrip("+-").isdecimal() or not digits.isascii():
        raise InvalidConfiguration(f"bad numeric config value '{value}' for '{key}'")
    try:
        return int(digits) * unit
    except ValueError:
        raise InvalidConfiguration(f"bad numeric config value '{value}' for '{key}'") from None


def read_entries(port: Port, path: str, scope: Scope, depth: int = 0) -> list[Entry]:
    """The entries of one file and of what it includes; none if the file is not there.

    Raises InvalidConfiguration for what git would not accept, OSError for what cannot be read.
    """
    try:
        content = read_file(port, path)
    except (FileNotFoundError, NotADirectoryError):
        return []
    entries: list[Entry] = []
    for key, value in parse_configuration(content, path):
        entries.append(Entry(key, value, scope))
        if key == "include.path" and value:
            if depth >= _INCLUDE_DEPTH_MAX:
                raise InvalidConfiguration(f"'{path}' is included too deep: do files form a ring?")
            target = os.path.join(os.path.dirname(path), os.path.expanduser(value))
            entries += read_entries(port, target, scope, depth + 1)
    return entries


def command_entries(overrides: Iterable[str], environment: Mapping[str, str]) -> list[Entry]:
    """The entries of `GIT_CONFIG_COUNT` and its kin, then those of `-c KEY[=VALUE]`."""
    pairs: list[tuple[str, str | None]] = []
    count = environment.get("GIT_CONFIG_COUNT", "") or "0"
    for number in range(as_integer("GIT_CONFIG_COUNT", count)):
        try:
            key = environment[f"GIT_CONFIG_KEY_{number}"]
            pairs.append((key, environment[f"GIT_CONFIG_VALUE_{number}"]))
        except KeyError as error:
            raise InvalidConfiguration(f"missing environment variable {error}") from None
    for override in overrides:
        key, separator, text = override.partition("=")
        pairs.append((key, text if separator else None))
    return [Entry(normal_key(key), value, Scope.COMMAND) for key, value in pairs]


def normal_key(key: str) -> str:
    """A key with its case-insensitive parts in lower case. Raises InvalidConfiguration."""
    section, dot, rest = key.partition(".")
    subsection, last_dot, name = rest.rpartition(".")
    if not (section and dot and name):
        raise InvalidConfiguration(f"key does not contain a section and a name: '{key}'")
    return f"{section.lower()}.{subsection}{last_dot}{name.lower()}"


def personal_files(environment: Mapping[str, str]) -> list[tuple[str, Scope]]:
    """The system's and the user's configuration files, which need not exist."""
    files = []
    if environment.get("GIT_CONFIG_NOSYSTEM", "") in ("", "0", "false"):
        files.append((environment.get("GIT_CONFIG_SYSTEM", "/etc/gitconfig"), Scope.SYSTEM))
    if "GIT_CONFIG_GLOBAL" in environment:
        files.append((environment["GIT_CONFIG_GLOBAL"], Scope.GLOBAL))
    elif home := environment.get("HOME"):
        base = environment.get("XDG_CONFIG_HOME") or f"{home}/.config"
        files += [(f"{base}/git/config", Scope.GLOBAL), (f"{home}/.gitconfig", Scope.GLOBAL)]
    return [(path, scope) for path, scope in files if path]


def load_configuration(
    port: Port,
    git_directory: str | None,
    overrides: Iterable[str],
    environment: Mapping[str, str],
) -> Configuration:
    """Everything that applies in a repository (or outside of one, with None)."""
    entries: list[Entry] = []
    for path, scope in personal_files(environment):
        entries += read_entries(port, path, scope)
    if git_directory is not None:
        entries += read_entries(port, f"{git_directory}/config", Scope.REPOSITORY)
    entries += command_entries(overrides, environment)
    return Configuration(entries)
