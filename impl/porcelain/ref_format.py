"""Format strings of `for-each-ref` and `branch`: `%(refname)`, `%(objectname:short)`, …"""

import re
from collections.abc import Callable
from functools import cached_property

from impl.errors import UsageError
from impl.refs.short import short_name
from impl.refs.values import Symbolic
from impl.repository import Repository
from impl.revisions import peel

_PLACEHOLDER = re.compile(r"%(?:\(([^)]*)\)|([0-9a-fA-F]{2})|(%))")
_ABBREVIATION = 7


class Described:
    """One reference, and what it leads to; objects are read when a field asks for it.

    :ivar symbolic: of a symbolic reference, what it points to.
    """

    def __init__(
        self, repository: Repository, name: str, object_name: str, symbolic: str | None
    ) -> None:
        """Nothing is read yet."""
        self.repository = repository
        self.name = name
        self.object_name = object_name
        self.symbolic = symbolic

    @cached_property
    def content(self) -> tuple[str, bytes]:
        """The object's type and content."""
        return self.repository.objects.read(self.object_name)

    @cached_property
    def peeled(self) -> "Described | None":
        """The same for what a tag leads to in the end; None for what is no tag."""
        if self.content[0] != "tag":
            return None
        target = peel(self.repository, self.object_name, "")
        return Described(self.repository, self.name, target, None)

    @cached_property
    def is_head(self) -> bool:
        """Whether HEAD is on this branch."""
        return self.repository.references.read("HEAD") == Symbolic(self.name)


Field = Callable[[Described], str]


def _subject(described: Described) -> str:
    message = described.content[1].partition(b"\n\n")[2].lstrip(b"\n")
    lines = message.partition(b"\n\n")[0].rstrip(b"\n")
    return lines.replace(b"\n", b" ").decode("utf-8", "surrogateescape")


def _short_target(described: Described) -> str:
    if described.symbolic is None:
        return ""
    return short_name(described.repository.references, described.symbolic)


_FIELDS: dict[str, Field] = {
    "refname": lambda one: one.name,
    "refname:short": lambda one: short_name(one.repository.references, one.name),
    "objectname": lambda one: one.object_name,
    "objectname:short": lambda one: one.object_name[:_ABBREVIATION],
    "objecttype": lambda one: one.content[0],
    "objectsize": lambda one: str(len(one.content[1])),
    "symref": lambda one: one.symbolic or "",
    "symref:short": _short_target,
    "subject": _subject,
    "HEAD": lambda one: "*" if one.is_head else " ",
}


def field(name: str) -> Field:
    """What fills `%(name)`; with a star in front, for what a tag leads to. Raises UsageError."""
    base = name.removeprefix("*")
    if base not in _FIELDS:
        raise UsageError(
            f"fatal: unknown field name: {name}; there are: {', '.join(sorted(_FIELDS))}"
        )
    plain = _FIELDS[base]
    if name == base:
        return plain

    def of_peeled(described: Described) -> str:
        return "" if described.peeled is None else plain(described.peeled)

    return of_peeled


class RefFormat:
    """A parsed format string."""

    def __init__(self, text: str) -> None:
        """Raises UsageError for a field that is not known."""
        self._parts: list[str | Field] = []
        position = 0
        for match in _PLACEHOLDER.finditer(text):
            self._parts.append(text[position : match.start()])
            name, code, _ = match.groups()
            if name is not None:
                self._parts.append(field(name))
            else:
                self._parts.append("%" if code is None else chr(int(code, 16)))
            position = match.end()
        self._parts.append(text[position:])

    def fill(self, described: Described) -> str:
        """The text for one reference."""
        return "".join(part if isinstance(part, str) else part(described) for part in self._parts)
