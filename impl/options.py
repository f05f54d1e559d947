"""The options of commands, in git's spelling: `--name`, `--name=value`, `-n`, `-nvalue`, `-abc`."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from impl.errors import UsageError


class Options(NamedTuple):
    """A command's arguments, sorted.

    :ivar flags: the options without a value that were given, by their long names.
    :ivar values: those with a value: long name -> every value, in order.
    :ivar rest: the arguments that are no options.
    """

    flags: frozenset[str]
    values: Mapping[str, Sequence[str]]
    rest: list[str]

    def value(self, name: str) -> str | None:
        """The last value that an option was given; None if it was not."""
        given = self.values.get(name)
        return given[-1] if given else None


def parse_options(
    arguments: Sequence[str], usage: str, *, flags: str = "", values: str = ""
) -> Options:
    """Sort a command's arguments.

    :param usage: one line, printed with an error.
    :param flags: the options without a value, separated by blanks: `quiet|q all|a dry-run`, the
        long name first. One that is a single letter is its own long name.
    :param values: the same for those with a value.
    Raises UsageError for what is in neither, and for a value that is missing or not wanted.
    """
    parser = _Parser(arguments, usage, _names(flags), _names(values))
    while parser.waiting:
        argument = parser.waiting.pop()
        if argument == "--":
            parser.rest += reversed(parser.waiting)
            break
        if not argument.startswith("-") or argument == "-":
            parser.rest.append(argument)
        elif argument.startswith("--"):
            parser.long(argument)
        else:
            parser.short(argument[1:])
    return Options(frozenset(parser.flags), parser.values, parser.rest)


class _Parser:
    """The arguments that are still to be sorted, the next one last, and those that are."""

    def __init__(
        self,
        arguments: Sequence[str],
        usage: str,
        known_flags: Mapping[str, str],
        known_values: Mapping[str, str],
    ) -> None:
        """`known_…`: spelling -> long name."""
        self.waiting = list(reversed(arguments))
        self._usage = usage
        self._known_flags = known_flags
        self._known_values = known_values
        self.flags: set[str] = set()
        self.values: dict[str, list[str]] = {}
        self.rest: list[str] = []

    def long(self, argument: str) -> None:
        """`--name`, `--name=value` or `--name value`."""
        name, separator, value = argument[2:].partition("=")
        if name in self._known_values:
            self._keep_value(name, value if separator else self._next(argument))
        elif name in self._known_flags and not separator:
            self.flags.add(self._known_flags[name])
        else:
            raise UsageError(f"error: unknown option '{argument}'\n{self._usage}")

    def short(self, letters: str) -> None:
        """What follows a single dash: letters of flags, the last perhaps of a value."""
        while letters:
            letter, letters = letters[0], letters[1:]
            if letter in self._known_values:
                self._keep_value(letter, letters or self._next("-" + letter))
                return
            if letter not in self._known_flags:
                raise UsageError(f"error: unknown switch '{letter}'\n{self._usage}")
            self.flags.add(self._known_flags[letter])

    def _keep_value(self, spelling: str, value: str) -> None:
        self.values.setdefault(self._known_values[spelling], []).append(value)

    def _next(self, option: str) -> str:
        if not self.waiting:
            raise UsageError(f"error: option '{option}' requires a value\n{self._usage}")
        return self.waiting.pop()


def _names(specification: str) -> dict[str, str]:
    """Every spelling -> the long name."""
    return {
        spelling: names.split("|")[0]
        for names in specification.split()
        for spelling in names.split("|")
    }
