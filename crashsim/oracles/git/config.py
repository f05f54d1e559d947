"""Git's configuration file (git-config(1), "CONFIGURATION FILE"), without includes."""

from collections.abc import Iterator
from dataclasses import dataclass

from crashsim.oracles.git.damage import FormatError

_SPACE = frozenset(" \t\n\r")
"""What git takes for white space."""

_ESCAPES = {"n": "\n", "t": "\t", "b": "\b", '"': '"', "\\": "\\"}


@dataclass(frozen=True, slots=True)
class Config:
    """A parsed file.

    :ivar entries: (key, value) in the file's order; keys are `section.name` or
        `section.subsection.name`, section and name in lower case. A name without `=` has None.
    """

    entries: tuple[tuple[str, str | None], ...]

    def get(self, key: str) -> str | None:
        """The last value of `key`; None where it is not set."""
        for name, value in reversed(self.entries):
            if name == key:
                return "true" if value is None else value
        return None

    def extensions(self) -> dict[str, str]:
        """Everything in `[extensions]`: name in lower case -> value."""
        return {
            key.removeprefix("extensions."): "true" if value is None else value
            for key, value in self.entries
            if key.startswith("extensions.")
        }


class _Reader:
    """Characters of the file, with the line number for messages."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self.line = 1

    def next(self) -> str:
        """The next character; empty at the end of the file."""
        if self._position >= len(self._text):
            return ""
        character = self._text[self._position]
        self._position += 1
        if character == "\n":
            self.line += 1
        return character

    def back(self) -> None:
        """Take the last character back."""
        self._position -= 1
        if self._text[self._position] == "\n":
            self.line -= 1

    def bad(self) -> FormatError:
        """The error for the current line, in git's own words."""
        return FormatError(f"has a bad config line {self.line}")

    def skip_line(self) -> None:
        """Go on to the next line."""
        while self.next() not in ("\n", ""):
            pass


def parse_config(content: bytes) -> Config:
    """Parse as git does. Raises FormatError at the line that git would call bad."""
    text = content.decode("utf-8", "surrogateescape").removeprefix("\ufeff")
    reader = _Reader(text.replace("\r\n", "\n"))
    return Config(tuple(_entries(reader)))


def _entries(reader: _Reader) -> Iterator[tuple[str, str | None]]:
    section = ""
    while character := reader.next():
        if character in "#;":
            reader.skip_line()
        elif character == "[":
            section = _section(reader)
        elif character in _SPACE:
            continue
        elif character.isascii() and character.isalpha():
            name, value = _variable(reader, character)
            yield f"{section}.{name}" if section else name, value
        else:
            raise reader.bad()


def _section(reader: _Reader) -> str:
    name = ""
    while True:
        character = reader.next()
        if character == "]" and name:
            return name.lower()
        if character in (" ", "\t"):
            return f"{name.lower()}.{_subsection(reader)}"
        if not (character.isascii() and (character.isalnum() or character in "-.")):
            raise reader.bad()
        if not character:
            raise reader.bad()
        name += character


def _subsection(reader: _Reader) -> str:
    character = reader.next()
    while character in (" ", "\t"):
        character = reader.next()
    if character != '"':
        raise reader.bad()
    name = ""
    while (character := reader.next()) != '"':
        if character == "\\":
            character = reader.next()
        if character in ("", "\n"):
            raise reader.bad()
        name += character
    if reader.next() != "]":
        raise reader.bad()
    return name


def _variable(reader: _Reader, first: str) -> tuple[str, str | None]:
    name = first
    while True:
        character = reader.next()
        if not (character.isascii() and (character.isalnum() or character == "-")):
            break
        if not character:
            break
        name += character
    while character in (" ", "\t"):
        character = reader.next()
    if character in ("\n", ""):
        return name.lower(), None
    if character != "=":
        raise reader.bad()
    return name.lower(), _value(reader)


def _escaped(reader: _Reader) -> str:
    character = reader.next()
    if character == "\n":
        return ""
    if character not in _ESCAPES:
        raise reader.bad()
    return _ESCAPES[character]


def _value(reader: _Reader) -> str:
    value = ""
    pending_space = ""
    quoted = False
    while True:
        character = reader.next()
        if character in ("\n", ""):
            if quoted:
                raise reader.bad()
            return value
        if character == "\0":
            raise reader.bad()
        if character in "#;" and not quoted:
            reader.skip_line()
            return value
        if character in _SPACE and not quoted:
            pending_space += character if value else ""
            continue
        value += pending_space
        pending_space = ""
        if character == "\\":
            value += _escaped(reader)
        elif character == '"':
            quoted = not quoted
        else:
            value += character
