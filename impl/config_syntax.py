"""The text of configuration files: read entry by entry, and changed with the rest left as it is.

Source: "CONFIGURATION FILE / Syntax" in git-config(1).
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from impl.errors import InvalidConfiguration

_SECTION = re.compile(r'\[\s*([A-Za-z0-9.-]+)(?:\s+"((?:[^"\\\n]|\\.)*)")?\s*\]')
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]*")
_VALUE_PART = re.compile(r"""\\(?:.|\n|\Z)|["#;]|[^\S\n]+|[^\s"#;\\]+""")
"""One piece of a value: an escape, a mark, blanks, or plain text; nothing at the line's end."""
_ESCAPES = {"\n": "", "n": "\n", "t": "\t", "b": "\b", '"': '"', "\\": "\\"}


class Located(NamedTuple):
    """An entry and where it stands in the text. :ivar value: None where there is no `=`."""

    key: str
    value: str | None
    start: int
    end: int


def parse_configuration(content: bytes, path: str) -> Iterator[tuple[str, str | None]]:
    """The entries of a file: key, and value (None where there is no `=`).

    Bytes that are not UTF-8 survive as surrogates. Raises InvalidConfiguration with the line.
    """
    text = content.decode("utf-8", "surrogateescape")
    for entry in locate_entries(text.removeprefix("\ufeff").replace("\r\n", "\n"), path):
        yield entry.key, entry.value


def locate_entries(text: str, path: str) -> Iterator[Located]:
    """The same, from text, with positions. Raises InvalidConfiguration with the line."""
    position, section = 0, None
    while position < len(text):
        character = text[position]
        if character.isspace():
            position += 1
        elif character in "#;":
            position = _line_end(text, position)
        elif character == "[":
            match = _SECTION.match(text, position)
            if match is None:
                raise _bad_line(text, position, path)
            section = _section_prefix(match)
            position = match.end()
        else:
            match = _NAME.match(text, position)
            if match is None or section is None:
                raise _bad_line(text, position, path)
            start = position
            value, position = _value(text, match.end(), path)
            yield Located(section + match[0].lower(), value, start, position)


def _section_prefix(match: re.Match[str]) -> str:
    if match[2] is None:
        return match[1].lower() + "."
    return f"{match[1].lower()}." + re.sub(r"\\(.)", r"\1", match[2]) + "."


def _value(text: str, position: int, path: str) -> tuple[str | None, int]:
    """The value behind a name, and where the parser goes on."""
    while text[position : position + 1] in ("\t", " "):
        position += 1
    if text[position : position + 1] in ("", "\n", "#", ";"):
        return None, _line_end(text, position)
    if text[position] != "=":
        raise _bad_line(text, position, path)
    return _value_text(text, position + 1, path)


def _value_text(text: str, position: int, path: str) -> tuple[str, int]:
    """The same, behind the `=`."""
    kept: list[str] = []
    length, quoted = 0, False  # `length`: of `kept` without trailing blanks.
    while (match := _VALUE_PART.match(text, position)) is not None:
        part = match[0]
        if part in "#;" and not quoted:
            position = _line_end(text, position)
            break
        position = match.end()
        if part == '"':
            quoted = not quoted
        elif part.isspace() and not quoted:
            kept.append(part if kept else "")
        elif not part.startswith("\\"):
            kept.append(part)
            length = len(kept)
        elif part[1:] in _ESCAPES:
            kept.append(_ESCAPES[part[1:]])
            length = len(kept)
        else:
            raise _bad_line(text, position - 1, path)
    if quoted:
        raise _bad_line(text, position - 1, path)
    return "".join(kept[:length]), position


def _line_end(text: str, position: int) -> int:
    end = text.find("\n", position)
    return len(text) if end < 0 else end


def _bad_line(text: str, position: int, path: str) -> InvalidConfiguration:
    line = text.count("\n", 0, position) + 1
    return InvalidConfiguration(f"bad config line {line} in file {path}: correct it by hand")


def format_entry(name: str, value: str) -> str:
    """One line of a section, quoted so that it reads back as the same value."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    escaped = escaped.replace("\n", "\\n").replace("\t", "\\t").replace("\b", "\\b")
    if escaped != escaped.strip() or any(mark in escaped for mark in "#;"):
        escaped = f'"{escaped}"'
    return f"\t{name} = {escaped}\n"


def format_section(key: str) -> tuple[str, str]:
    """A key's section header line, and its name within the section."""
    section, _, rest = key.partition(".")
    subsection, dot, name = rest.rpartition(".")
    if not dot:
        return f"[{section}]\n", name
    escaped = subsection.replace("\\", "\\\\").replace('"', '\\"')
    return f'[{section} "{escaped}"]\n', name
