"""The litmus tests: each a handful of system calls and the question that they ask.

The language is `litmus_interpreter`'s. Letters are the contents: o(ld), n(ew), m(ore), l(ast).
"""

from collections.abc import Iterable
from dataclasses import dataclass

from crashsim.errors import UsageError


class UnknownLitmus(UsageError):
    """There is no litmus test of that name."""


@dataclass(frozen=True, slots=True)
class Litmus:
    """One test.

    :ivar question: what its outcomes answer.
    :ivar files: the files that an outcome tells of.
    :ivar run: the calls after whose return the program would say "saved".
    :ivar setup: calls before; durable when the test begins.
    """

    name: str
    question: str
    files: tuple[str, ...]
    run: tuple[str, ...]
    setup: tuple[str, ...] = ()


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.split(";"))


_OLD = _lines("open f value write create; write f o; close f")
_STAGED = "open f temporary write create; write f n"
_DIRECTORY = "open d . read directory; fsync d"

TESTS = tuple(
    Litmus(name, question, tuple(files.split()), _lines(run), setup)
    for name, question, files, run, setup in (
        (
            "append",
            "Does an append ever show as a longer file without its data?",
            "value",
            "open f value write append; write f n",
            _OLD,
        ),
        (
            "append-fsync",
            "Is appended data there after fsync?",
            "value",
            "open f value write append; write f n; fsync f",
            _OLD,
        ),
        (
            "append-fdatasync",
            "Does fdatasync carry the new size that is needed to read the data?",
            "value",
            "open f value write append; write f n; fdatasync f",
            _OLD,
        ),
        (
            "append-twice",
            "Do two appends reach the file in order?",
            "value",
            "open f value write append; write f n; write f m",
            _OLD,
        ),
        (
            "overwrite",
            "Is a block that is overwritten in place old or new, or torn?",
            "value",
            "open f value write; write f n",
            _OLD,
        ),
        (
            "overwrite-fdatasync",
            "Is an overwritten block there after fdatasync?",
            "value",
            "open f value write; write f n; fdatasync f",
            _OLD,
        ),
        (
            "overwrite-writeout",
            "Is sync_file_range enough for a block that was allocated before?",
            "value",
            "open f value write; write f n; writeout f",
            _OLD,
        ),
        (
            "create",
            "Can a name be there before its data?",
            "value",
            "open f value write create; write f n",
            (),
        ),
        (
            "create-fsync",
            "Does the fsync of a new file make its name durable?",
            "value",
            "open f value write create; write f n; fsync f",
            (),
        ),
        (
            "create-fsync-directory",
            "Does the fsync of a directory carry the data of the files in it?",
            "value",
            f"open f value write create; write f n; {_DIRECTORY}",
            (),
        ),
        (
            "create-rename",
            "Can a renamed new file be there without its data?",
            "value temporary",
            f"{_STAGED}; close f; rename temporary value",
            (),
        ),
        (
            "replace",
            "Does replacing by rename without any fsync keep the old or the new content whole?",
            "value",
            f"{_STAGED}; close f; rename temporary value",
            _OLD,
        ),
        (
            "replace-fsync",
            "The same with an fsync before the rename: is the rename durable?",
            "value",
            f"{_STAGED}; fsync f; close f; rename temporary value",
            _OLD,
        ),
        (
            "replace-fsync-directory",
            "The same with an fsync of the directory at the end: the careful program.",
            "value",
            f"{_STAGED}; fsync f; close f; rename temporary value; {_DIRECTORY}",
            _OLD,
        ),
        (
            "replace-fsync-late",
            "Does an fsync after the rename make the new name durable?",
            "value",
            f"{_STAGED}; rename temporary value; fsync f",
            _OLD,
        ),
        (
            "link-unlink",
            "Can both names of a file be gone?",
            "value temporary",
            f"{_STAGED}; fsync f; link temporary value; unlink temporary",
            (),
        ),
        (
            "link-unlink-fsync",
            "Does the fsync of a file make its second name durable?",
            "value temporary",
            f"{_STAGED}; fsync f; link temporary value; unlink temporary; fsync f",
            (),
        ),
        (
            "truncate-write",
            "What does rewriting a file in place leave?",
            "value",
            "open f value write truncate; write f n; close f",
            _OLD,
        ),
        (
            "truncate-write-fsync",
            "The same with an fsync.",
            "value",
            "open f value write truncate; write f n; fsync f",
            _OLD,
        ),
        (
            "shrink-fsync",
            "Is a shorter size durable after fsync?",
            "value",
            "open f value write; resize f 1; fsync f",
            _lines("open f value write create; write f oo; close f"),
        ),
        (
            "unlink",
            "Is an unlink durable without a sync?",
            "value",
            "unlink value",
            _OLD,
        ),
        (
            "unlink-fsync-directory",
            "Is an unlink durable after the directory's fsync?",
            "value",
            f"unlink value; {_DIRECTORY}",
            _OLD,
        ),
        (
            "unlink-create-fsync",
            "Does the fsync of a new file carry the unlink of the old one of its name?",
            "value",
            "unlink value; open f value write create; write f n; fsync f",
            _OLD,
        ),
        (
            "create-two-fsync-one",
            "Does the fsync of one new file carry another one along?",
            "one two",
            "open e one write create; write e n; open f two write create; write f n; fsync f",
            (),
        ),
        (
            "create-two-writeout-fsync-one",
            "The same, with the other's data written out by sync_file_range before: git's batch.",
            "one two",
            "open e one write create; write e n; writeout e; "
            "open f two write create; write f n; fsync f",
            (),
        ),
        (
            "overwrite-two-fsync-one",
            "Does the fsync of one file carry data of another that was overwritten in place?",
            "one two",
            "open e one write; write e n; open f two write; write f n; fsync f",
            _lines(
                "open e one write create; write e o; open f two write create; write f o; "
                "close e; close f"
            ),
        ),
        (
            "overwrite-two-writeout-fsync-one",
            "The same, with the other's data written out before: does the flush cover it?",
            "one two",
            "open e one write; write e n; writeout e; open f two write; write f n; fsync f",
            _lines(
                "open e one write create; write e o; open f two write create; write f o; "
                "close e; close f"
            ),
        ),
        (
            "rename-fsync-other",
            "Does the fsync of another file carry a rename along?",
            "value renamed other",
            "rename value renamed; open f other write create; write f n; fsync f",
            _OLD,
        ),
        (
            "rename-two",
            "Can a later rename be there without an earlier one?",
            "a b",
            "rename one a; rename two b",
            _lines(
                "open e one write create; write e o; open f two write create; write f o; "
                "close e; close f"
            ),
        ),
        (
            "create-in-new-directory-fsync",
            "Does the fsync of a file make the directories above it durable?",
            "new/value",
            "mkdir new; open f new/value write create; write f n; fsync f",
            (),
        ),
        (
            "rename-parent-fsync",
            "Does the fsync of a file carry the rename of its directory?",
            "old/value new/value",
            "rename old new; open f new/value write append; write f n; fsync f",
            _lines("mkdir old; open f old/value write create; write f o; close f"),
        ),
        (
            "syncfs",
            "Is everything there after syncfs?",
            "one two renamed",
            "open e one write create; write e n; open f two write create; write f n; "
            "rename value renamed; syncfs f",
            _OLD,
        ),
    )
)
"""All of them, in the order of reports."""

BY_NAME = {test.name: test for test in TESTS}


def choose_tests(names: Iterable[str]) -> tuple[Litmus, ...]:
    """The tests of these names, or all where there is none. Raises UnknownLitmus."""
    chosen = tuple(names)
    for name in chosen:
        if name not in BY_NAME:
            raise UnknownLitmus(
                f"there is no litmus test {name!r}: crashsim has {', '.join(BY_NAME)}"
            )
    return tuple(test for test in TESTS if not chosen or test.name in chosen)
