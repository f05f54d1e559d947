"""What breaks a method, as a table of Markdown."""

from crashsim.campaigns.validation import (
    Counterexample,
    FilesystemValidation,
    ModelResult,
    ValidationResult,
)
from crashsim.report.counterexamples import counterexamples_markdown

LOST = Counterexample(
    "intact",
    "index-object-empty",
    "a blob is empty",
    ["add"],
    ["power cut before operation 9", "  8: write 7 bytes at 0 of /repo/tmp_obj_12ab_3: lost"],
    1,
)
LARGER = Counterexample("intact", "ref-object-empty", "a | b", ["add", "commit"], ["cut"], 0)
TORN = Counterexample("atomic", "transaction-torn", "half", ["update-refs"], ["cut"], 0)


def validated(*filesystems: tuple[str, list[Counterexample]]) -> ValidationResult:
    return ValidationResult(
        "m",
        [
            FilesystemValidation(name, [], ModelResult(name, 1, 2, 2, {}, found), [], [], [])
            for name, found in filesystems
        ],
        [],
        0,
        1.0,
    )


def rows(result: ValidationResult) -> list[str]:
    return counterexamples_markdown(result).splitlines()[4:]


def test_the_simplest_crash_is_told_once_for_all_filesystems_that_have_it() -> None:
    found = rows(validated(("xfs", [LARGER, LOST]), ("btrfs", [LOST]), ("ext4", [LARGER])))

    assert found == [
        "| intact | xfs, btrfs | add | `write 7 bytes at 0 of /repo/tmp_obj: lost` |"
        " a blob is empty |",
        "| intact | ext4 | add, commit | nothing is lost: the power goes between two steps |"
        r" a \| b |",
    ]


def test_properties_come_in_their_order() -> None:
    found = rows(validated(("xfs", [TORN, LOST])))

    assert [row.split(" | ")[0] for row in found] == ["| intact", "| atomic"]


def test_nothing_broken_is_nothing_told() -> None:
    assert counterexamples_markdown(validated(("xfs", []))) == ""
