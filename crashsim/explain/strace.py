"""Read what strace(1) writes with `-f -y -ttt -o FILE`: one system call after another.

Each line begins with the process and the time. A call that another process interrupts is cut in two
("<unfinished ...>", "<... NAME resumed>"); the halves are joined here. With `-y`, descriptors have
their path after them in angle brackets, and so has AT_FDCWD.
"""

import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_LINE = re.compile(r"(\d{1,10}) +(\d{1,12}\.\d{1,9}) (.*)", re.DOTALL)
_CALL = re.compile(r"(\w+)\((.*)", re.DOTALL)
_RESUMED = re.compile(r"<\.\.\. (\w+) resumed>(.*)", re.DOTALL)
_RESULT = re.compile(
    r"\) += (-?\d{1,20}|0x[0-9a-f]{1,16}|\?)(?:<(?:[^>]*)>(?:\(deleted\))?)?(?: ([A-Z]\w*))?"
)
_DESCRIPTOR = re.compile(r"(-?\d{1,10}|AT_FDCWD)(?:<(.*?)>)?(\(deleted\))?")
_ESCAPE = re.compile(r"\\([0-7]{1,3}|x[0-9a-fA-F]{2}|.)", re.DOTALL)
_SIMPLE_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "v": "\v", "f": "\f", "a": "\a", "b": "\b"}
_UNFINISHED = " <unfinished ...>"


@dataclass(frozen=True, slots=True)
class Call:
    """One system call that returned.

    :ivar begin_seconds: since the epoch, as the guest's clock has it; `end_seconds` is the same for
        calls that nothing interrupted.
    :ivar arguments: as strace prints them.
    :ivar result: what it returned; -1 for an error, None for a call that did not return.
    :ivar error: the errno's name, else empty.
    """

    process: int
    begin_seconds: float
    end_seconds: float
    name: str
    arguments: tuple[str, ...]
    result: int | None
    error: str = ""

    @property
    def ok(self) -> bool:
        """Whether it did what it was asked."""
        return self.result is not None and not self.error


@dataclass(frozen=True, slots=True)
class Descriptor:
    """An argument that is a file descriptor.

    :ivar number: -100 for AT_FDCWD.
    :ivar path: what strace says is open there; empty where it says nothing.
    :ivar deleted: whether the file has no name any more; `path` is then its last one.
    """

    number: int
    path: str
    deleted: bool = False


def parse(lines: Iterable[str]) -> Iterator[Call]:
    """The calls of a trace, in the order in which they ended.

    Lines about signals and exits, and what does not look like strace's, are left out.
    """
    open_calls: dict[int, tuple[float, str]] = {}
    for line in lines:
        parts = _LINE.match(line.rstrip("\n"))
        if parts is None:
            continue
        process, time, text = int(parts[1]), float(parts[2]), parts[3]
        resumed = _RESUMED.match(text)
        if resumed is not None:
            begin, head = open_calls.pop(process, (time, ""))
            if not head.startswith(f"{resumed[1]}("):
                continue  # its beginning was never seen
            text = head + resumed[2]
        elif text.endswith(_UNFINISHED):
            open_calls[process] = time, text.removesuffix(_UNFINISHED)
            continue
        else:
            begin = time
        call = _parse_call(process, begin, time, text)
        if call is not None:
            yield call


def _parse_call(process: int, begin: float, end: float, text: str) -> Call | None:
    parts = _CALL.match(text)
    if parts is None:
        return None
    arguments, rest = _split(parts[2])
    result = _RESULT.match(rest)
    if result is None:
        return None
    value = None if result[1] == "?" else int(result[1], 0)
    return Call(process, begin, end, parts[1], arguments, value, result[2] or "")


def _split(text: str) -> tuple[tuple[str, ...], str]:
    """The arguments up to the call's closing parenthesis, and the text from that on."""
    arguments: list[str] = []
    depth = start = at = 0
    while at < len(text):
        character = text[at]
        if character == '"':
            at = _after_string(text, at)
            continue
        if (
            character == "<"
            and at
            and (text[at - 1].isdigit() or text[start:at].strip() == "AT_FDCWD")
        ):
            # Inside a path strace escapes the bracket that ends it.
            at = text.find(">", at) + 1 or len(text)
            continue
        if character in "([{":
            depth += 1
        elif character in ")]}" and depth:
            depth -= 1
        elif character == ")":
            arguments.append(text[start:at].strip())
            return tuple(argument for argument in arguments if argument), text[at:]
        elif character == "," and not depth:
            arguments.append(text[start:at].strip())
            start = at + 1
        at += 1
    return tuple(arguments), ""


def _after_string(text: str, quote: int) -> int:
    at = quote + 1
    while at < len(text) and text[at] != '"':
        at += 2 if text[at] == "\\" else 1
    return at + 1


def descriptor(argument: str) -> Descriptor:
    """An argument such as `3</mnt/0/file>` or `AT_FDCWD</mnt/0>`; number -1 where it is neither."""
    parts = _DESCRIPTOR.fullmatch(argument)
    if parts is None:
        return Descriptor(-1, "")
    number = -100 if parts[1] == "AT_FDCWD" else int(parts[1])
    return Descriptor(number, unescape(parts[2] or ""), bool(parts[3]))


def string(argument: str) -> str | None:
    """The text of an argument in quotes; None for anything else (NULL, an address)."""
    if not argument.startswith('"'):
        return None
    end = _after_string(argument, 0)
    return unescape(argument[1 : end - 1])


def strings(argument: str) -> list[str]:
    """The texts of an array of strings, such as execve's arguments."""
    found: list[str] = []
    at = argument.find('"')
    while at >= 0:
        end = _after_string(argument, at)
        found.append(unescape(argument[at + 1 : end - 1]))
        at = argument.find('"', end)
    return found


def unescape(text: str) -> str:
    """Undo strace's escapes (those of C, with octal numbers); bytes are UTF-8, surrogateescaped."""

    def replaced(match: re.Match[str]) -> str:
        escape = match[1]
        if escape[0] in "01234567":
            return chr(int(escape, 8) & 0xFF)
        if escape[0] == "x" and len(escape) == 3:
            return chr(int(escape[1:], 16))
        return _SIMPLE_ESCAPES.get(escape, escape)

    raw = _ESCAPE.sub(replaced, text)
    return raw.encode("latin-1", "replace").decode("utf-8", "surrogateescape")


def joined(directory: str, path: str) -> str:
    """An absolute path without `.` and `..`. Symbolic links are not followed."""
    return posixpath.normpath(posixpath.join(directory, path))
