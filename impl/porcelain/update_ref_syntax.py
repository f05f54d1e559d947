"""The two forms of `update-ref --stdin`: lines, and (with -z) fields ended by NUL.

Source: git-update-ref(1).
"""

import os
import re
from collections.abc import Iterator
from typing import BinaryIO

from impl.errors import InvalidInput

_FIELD = re.compile(r'"((?:[^"\\]|\\.)*)"|([^ "]?[^ ]*)')
_ESCAPE = re.compile(r"\\([abfnrtv\"\\]|[0-3][0-7]{2}|.|$)")
_ESCAPED = dict(zip('abfnrtv"\\', '\a\b\f\n\r\t\v"\\', strict=True))
_LINE_BYTES_MAX = 1 << 16

Fields = list[str | None]


_FIELDS_MAX = {
    **dict.fromkeys(("start", "prepare", "commit", "abort"), 0),
    "option": 1,
    **dict.fromkeys(("create", "delete", "verify"), 2),
    **dict.fromkeys(("symref-create", "symref-delete", "symref-verify"), 2),
    "update": 3,
    "symref-update": 4,
}
"""How many fields a command has; with -z, exactly so many (an absent one is empty)."""


def read_lines(stream: BinaryIO) -> Iterator[tuple[str, Fields]]:
    """Commands with their fields, one a line, separated by blanks, quoted as in C if need be.

    Raises InvalidInput for what is not in this form, and for a line of 64 KiB or more.
    """
    while line := stream.readline(_LINE_BYTES_MAX):
        if not line.endswith(b"\n") and len(line) == _LINE_BYTES_MAX:
            raise InvalidInput(f"a line has more than {_LINE_BYTES_MAX} bytes")
        text = os.fsdecode(line.removesuffix(b"\n"))
        command, _, rest = text.partition(" ")
        _check_command(command, text)
        fields = _split(rest, text) if rest else []
        if len(fields) > _FIELDS_MAX[command]:
            raise InvalidInput(f"{command}: extra input: {fields[-1]}")
        yield command, fields


def _split(text: str, line: str) -> Fields:
    if '"' not in text:
        return list(text.split(" "))
    fields: Fields = []
    position = 0
    while position <= len(text):
        match = _FIELD.match(text, position)
        assert match is not None  # Its last alternative matches nothing at all.
        quoted, plain = match.groups()
        fields.append(_unquoted(quoted, line) if quoted is not None else plain)
        position = match.end()
        if position < len(text) and text[position] != " ":
            raise InvalidInput(f"badly quoted argument: {line}")
        position += 1
    return fields


def _unquoted(text: str, line: str) -> str:
    def character(match: re.Match[str]) -> str:
        code = match[1]
        if code in _ESCAPED:
            return _ESCAPED[code]
        if not code.isdigit():
            raise InvalidInput(f"badly quoted argument: {line}")
        return os.fsdecode(bytes((int(code, 8),)))

    return os.fsdecode(os.fsencode(_ESCAPE.sub(character, text)))


def read_nul_separated(stream: BinaryIO) -> Iterator[tuple[str, Fields]]:
    """Commands with their fields, each field ended by NUL (`-z`). Raises InvalidInput."""
    texts = _nul_texts(stream)
    for text in texts:
        command, has_name, name = text.partition(" ")
        _check_command(command, text)
        fields: Fields = [name] if has_name else []
        count = _FIELDS_MAX[command]
        if command == "symref-update":
            count = 3
        while len(fields) < count:
            value = next(texts, None)
            if value is None:
                raise InvalidInput(f"{command} {name}: unexpected end of input")
            fields.append(value)
        if command == "symref-update" and fields[2]:
            fields.append(next(texts, None))
        yield command, _with_absent(command, fields)


def _with_absent(command: str, fields: Fields) -> Fields:
    """With -z, an empty old value is one that is not demanded."""
    if command in ("update", "delete", "verify") and not fields[-1]:
        fields[-1] = None
    return fields


def _nul_texts(stream: BinaryIO) -> Iterator[str]:
    rest = b""
    while chunk := stream.read(1 << 16):
        *texts, rest = (rest + chunk).split(b"\0")
        yield from map(os.fsdecode, texts)
        if len(rest) > _LINE_BYTES_MAX:
            raise InvalidInput(f"a field has more than {_LINE_BYTES_MAX} bytes")
    if rest:
        raise InvalidInput("the input does not end with a NUL")


def _check_command(command: str, line: str) -> None:
    if command not in _FIELDS_MAX:
        raise InvalidInput(f"unknown command: {line}" if line else "empty command in input")
