"""Turning numbers and untrusted text into words that are safe and pleasant to read.

Mark texts, paths and kernel logs come from a guest: they may hold escape sequences that rewrite a
terminal, and bidirectional controls that make a line read otherwise than it is. Everything that a
report shows goes through `printable` first; escaping for HTML or XML comes on top of that.
"""

import unicodedata

_BINARY_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_UNSAFE_CATEGORIES = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
"""Control, format (bidirectional overrides among them), unassigned (U+FFFE, which XML forbids),
private use, surrogate, line and paragraph separators."""


def printable(text: str, *, keep_newlines: bool = False) -> str:
    """`text` with every character that is not plainly visible replaced by its escape (`\\x1b`)."""
    return "".join(
        character
        if (keep_newlines and character in "\n\t")
        or unicodedata.category(character) not in _UNSAFE_CATEGORIES
        else _escape(character)
        for character in text
    )


def _escape(character: str) -> str:
    code = ord(character)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def code_spans(text: str) -> list[tuple[bool, str]]:
    """A sentence's parts: (whether it stood between backticks, the text), none of them empty."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        # A backtick without its partner is a character like any other.
        parts[-2:] = ["`".join(parts[-2:])]
    return [(at % 2 == 1, part) for at, part in enumerate(parts) if part]


def shorten(text: str, width: int) -> str:
    """`text` cut to `width` characters, an ellipsis in the middle: both ends of a path matter."""
    if len(text) <= width:
        return text
    head = (width - 1) // 3
    return f"{text[:head]}…{text[len(text) - (width - 1 - head) :]}"


def bytes_in_words(count: int) -> str:
    """A size or an offset in binary units, exact whenever that is short: `4 KiB`, `1.38 GiB`."""
    value = float(count)
    for unit in _BINARY_UNITS:
        if value < 1024 or unit == _BINARY_UNITS[-1]:
            number = f"{value:.0f}" if value == int(value) else f"{value:.2f}"
            return f"{number} {unit}"
        value /= 1024
    raise AssertionError("unreachable: the last unit always returns")


def seconds_in_words(seconds: float) -> str:
    """A duration: `84 ms`, `3.2 s`, `2 min 5 s`."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{int(seconds // 60)} min {int(seconds % 60)} s"


def counted(count: int, noun: str, plural: str = "") -> str:
    """`1 write`, `1,204 writes`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"
