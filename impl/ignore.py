"""Which untracked files are ignored: gitignore(5)."""

import os
import re
from typing import NamedTuple

from impl.durability.port import Port, read_file


class Rule(NamedTuple):
    """One line of an exclude file.

    :ivar base: the directory of the file, relative to the working tree, with a slash at its end
        (or empty).
    :ivar pattern: matches the path below `base`, or the last component only.
    """

    base: bytes
    pattern: re.Pattern[bytes]
    is_negated: bool
    directories_only: bool
    whole_path: bool

    def matches(self, path: bytes, is_directory: bool) -> bool:
        """Whether the rule speaks about a path (relative to the working tree)."""
        if self.directories_only and not is_directory:
            return False
        if not path.startswith(self.base):
            return False
        subject = path[len(self.base) :] if self.whole_path else path[path.rfind(b"/") + 1 :]
        return self.pattern.fullmatch(subject) is not None


def parse_rules(content: bytes, base: bytes = b"") -> list[Rule]:
    """The rules of an exclude file in the directory `base`."""
    rules = []
    for raw in content.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        line = _without_trailing_blanks(raw.removesuffix(b"\r"))
        if not line or line.startswith(b"#"):
            continue
        negated = line.startswith(b"!")
        line = line[1:] if negated else line
        directories_only = line.endswith(b"/")
        line = line[:-1] if directories_only else line
        whole_path = b"/" in line
        if line:
            pattern = glob_pattern(line.removeprefix(b"/"))
            rules.append(Rule(base, pattern, negated, directories_only, whole_path))
    return rules


def _without_trailing_blanks(line: bytes) -> bytes:
    end = len(line)
    while end and line[end - 1 : end] == b" " and line[end - 2 : end - 1] != b"\\":
        end -= 1
    return line[:end]


def glob_pattern(glob: bytes, *, star_crosses_slash: bool = False) -> re.Pattern[bytes]:
    """git's wildmatch as a regular expression: `*`, `?` and `[…]` stop at slashes, `**` does not.

    :param star_crosses_slash: as pathspecs want it, where `*` matches slashes too.
    """
    one, many = (b".", b".*") if star_crosses_slash else (b"[^/]", b"[^/]*")
    parts: list[bytes] = []
    position = 0
    while position < len(glob):
        rest = glob[position:]
        at_start = position == 0 or glob[position - 1 : position] == b"/"
        if at_start and rest.startswith(b"**/"):
            parts.append(b"(?:.*/)?")
            position += 3
        elif at_start and rest == b"**":
            parts.append(b".*")
            position += 2
        elif rest[:1] == b"*":
            parts.append(many)
            position += len(rest) - len(rest.lstrip(b"*"))
        elif rest[:1] == b"?":
            parts.append(one)
            position += 1
        elif rest[:1] == b"[" and (found := _bracket(rest)) is not None:
            parts.append(found[0])
            position += found[1]
        else:
            step = 2 if rest[:1] == b"\\" and len(rest) > 1 else 1
            parts.append(re.escape(rest[step - 1 : step]))
            position += step
    return re.compile(b"".join(parts), re.DOTALL)


def _bracket(rest: bytes) -> tuple[bytes, int] | None:
    """A bracket expression as a regular one, and its length; None if it is not closed."""
    end = rest.find(b"]", 3 if rest[1:2] in (b"!", b"^") else 2)
    if end < 0:
        return None
    inside = rest[1:end]
    negated = inside[:1] in (b"!", b"^")
    inside = inside[1:] if negated else inside
    inside = inside.replace(b"\\", b"\\\\").replace(b"[", b"\\[").replace(b"&&", b"&\\&")
    expression = b"(?!/)[" + (b"^" if negated else b"") + inside + b"]"
    try:
        re.compile(expression)
    except re.error:  # A range from high to low matches nothing.
        expression = b"(?!)"
    return expression, end + 1


class Ignores:
    """The exclude files of a working tree, read directory by directory as they are needed."""

    def __init__(self, port: Port, root: str, common_files: list[str]) -> None:
        """
        :param common_files: for the whole tree, the weakest first; they need not exist.
        """
        self._port = port
        self._root = root
        self._common = [rule for path in common_files for rule in self._rules(path, b"")]
        self._by_directory: dict[bytes, list[Rule]] = {}

    def _rules(self, path: str, base: bytes) -> list[Rule]:
        try:
            return parse_rules(read_file(self._port, path), base)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return []

    def _rules_for(self, directory: bytes) -> list[Rule]:
        """The rules that hold in a directory, the weakest first."""
        known = self._by_directory.get(directory)
        if known is not None:
            return known
        if directory:
            above = self._rules_for(directory[: max(directory.rfind(b"/"), 0)])
            base = directory + b"/"
        else:
            above, base = self._common, b""
        rules = above + self._rules(f"{self._root}/{os.fsdecode(base)}.gitignore", base)
        self._by_directory[directory] = rules
        return rules

    def is_ignored(self, path: bytes, is_directory: bool) -> bool:
        """Whether the last rule that matches says so. Directories above must not be ignored."""
        for rule in reversed(self._rules_for(path[: max(path.rfind(b"/"), 0)])):
            if rule.matches(path, is_directory):
                return not rule.is_negated
        return False
