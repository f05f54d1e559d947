"""What of git's own configuration a recording may vary, checked before anything starts.

git itself only warns about an unknown component or method and goes on with its default
(environment.c of git 2.36 and later): a table of results would then show the wrong configuration's
figures.
"""

from dataclasses import dataclass

from crashsim.errors import UsageError

DEFAULT = "default"
"""Leaves a setting out, so that git uses its own default."""

COMPONENTS = (
    *("loose-object", "pack", "pack-metadata", "commit-graph", "index", "reference"),
    *("objects", "derived-metadata", "committed", "added", "all"),
)
"""git-config(1), core.fsync; `none` besides."""

METHODS = ("fsync", "writeout-only", "batch")
"""git-config(1), core.fsyncMethod."""

REF_FORMATS = ("files", "reftable")
OBJECT_FORMATS = ("sha1", "sha256")


class BadGitOption(UsageError):
    """A component, method or format that git does not have."""


@dataclass(frozen=True, slots=True)
class GitOptions:
    """How the git under test is configured; the values are the words of git-config(1).

    Raises BadGitOption for any value that git would not take.

    :ivar fsync: core.fsync: components joined by commas, `none`, or `default`.
    :ivar method: core.fsyncMethod, or `default`.
    :ivar known_methods: what the program under test knows; git's own unless said.
    """

    fsync: str = DEFAULT
    method: str = DEFAULT
    ref_format: str = "files"
    object_format: str = "sha1"
    known_methods: tuple[str, ...] = METHODS

    def __post_init__(self) -> None:
        """Check every value."""
        check_components(self.fsync)
        _check(self.method, (DEFAULT, *self.known_methods), "core.fsyncMethod")
        _check(self.ref_format, REF_FORMATS, "ref format")
        _check(self.object_format, OBJECT_FORMATS, "object format")

    def configuration(self) -> str:
        """The text of a git configuration file: these settings, and what keeps a run repeatable.

        Automatic maintenance is off, since it would run in the background, at moments of its own.
        """
        lines = [
            "[user]",
            "\tname = Crash Test",
            "\temail = crash@example.invalid",
            *("[core]", "\thooksPath = /dev/null"),
        ]
        if self.fsync != DEFAULT:
            lines.append(f"\tfsync = {self.fsync}")
        if self.method != DEFAULT:
            lines.append(f"\tfsyncMethod = {self.method}")
        lines += ["[gc]", "\tauto = 0", "\tautoDetach = false"]
        # The dates of all commits are fixed and long ago: reflogs must not look expired for that.
        lines += ["\treflogExpire = never", "\treflogExpireUnreachable = never"]
        lines += ["[maintenance]", "\tauto = false"]
        lines += ["[receive]", "\tautoGC = false", "[init]", "\tdefaultBranch = main", ""]
        return "\n".join(lines)


def check_components(text: str) -> None:
    """Check a value of core.fsync; BadGitOption names the known components.

    `none` counts only as the last of a list, as git reads it.
    """
    if text == DEFAULT:
        return
    *before, last = text.split(",")
    if last != "none":
        before.append(last)
    for item in before:
        if item == "none":
            raise BadGitOption(f"core.fsync {text!r}: git takes none only as the last of a list")
        if item.removeprefix("-") not in COMPONENTS:
            known = ", ".join((DEFAULT, "none", *COMPONENTS))
            raise BadGitOption(f"core.fsync has no component {item!r}: git knows {known}")


def _check(value: str, known: tuple[str, ...], what: str) -> None:
    if value not in known:
        raise BadGitOption(f"unknown {what} {value!r}: crashsim knows {', '.join(known)}")
