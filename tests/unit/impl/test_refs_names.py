"""Names of references: git's rules, and what is narrower here."""

import pytest

from impl.refs.errors import InvalidReferenceName
from impl.refs.names import (
    check_name,
    full_branch_name,
    is_root,
    is_well_formed,
    matches_pattern,
    printable,
)

GOOD = (
    "refs/heads/a",
    "refs/heads/a.b",
    "refs/x/@",
    "refs/heads/é",
    "refs/heads/\udcff",
    "a/b-{c}",
)
BAD = (
    *("", "@", "refs/heads/", "/refs/a", "refs//a", "refs/.a", "refs/a/.b", "refs/a..b", "refs/a."),
    *("refs/a.lock", "refs/a.lock/b", "refs/a b", "refs/a~1", "refs/a^", "refs/a:b", "refs/a?"),
    *("refs/a*", "refs/a[b", "refs/a\\b", "refs/a@{1}", "refs/a\0b", "refs/a\nb", "refs/a\x7f"),
    *("refs/../config", "refs/heads/../../config", "refs/heads/.git"),
)


@pytest.mark.parametrize("name", GOOD)
def test_well_formed(name: str) -> None:
    assert is_well_formed(name)


@pytest.mark.parametrize("name", BAD)
def test_malformed(name: str) -> None:
    assert not is_well_formed(name)
    with pytest.raises(InvalidReferenceName):
        check_name(name)


def test_one_level_names_need_leave() -> None:
    assert not is_well_formed("main")
    assert is_well_formed("main", allow_one_level=True)


@pytest.mark.parametrize(
    "name", ["config", "objects/ab", "index", "logs/HEAD", "head", "packed-refs"]
)
def test_files_of_the_repository_are_no_references(name: str) -> None:
    with pytest.raises(InvalidReferenceName, match="below refs/"):
        check_name(name)


@pytest.mark.parametrize("name", ["HEAD", "ORIG_HEAD", "AUTO_MERGE"])
def test_root_names(name: str) -> None:
    assert is_root(name)
    check_name(name)


@pytest.mark.parametrize(
    "name", ["Head", "HEAD1", "-", "", "A-B", "COMMIT_EDITMSG", "HEAD/x", "HEAD\n"]
)
def test_not_root_names(name: str) -> None:
    assert not is_root(name)


def test_name_length_is_limited() -> None:
    check_name("refs/" + "a" * 3995)
    with pytest.raises(InvalidReferenceName, match="4001 characters"):
        check_name("refs/" + "a" * 3996)


@pytest.mark.parametrize("name", ["-x", "HEAD", "a..b", ""])
def test_no_branch_names(name: str) -> None:
    with pytest.raises(InvalidReferenceName):
        full_branch_name(name)


def test_printable_is_one_line_of_text() -> None:
    assert printable("a\n\x1b\udcff") == r"a\n\x1b\\udcff"


@pytest.mark.parametrize(
    ("name", "pattern", "expected"),
    [
        ("refs/heads/a", "refs/heads", True),
        ("refs/heads/a", "refs/heads/", True),
        ("refs/headsx/a", "refs/heads", False),
        ("refs/heads/a", "refs/heads/a", True),
        ("refs/heads/a/b", "refs/heads/*", False),
        ("refs/heads/a/b", "refs/heads/**", True),
        ("refs/heads/a/b", "refs/**/b", True),
        ("refs/b", "refs/**/b", True),
        ("refs/heads/ab", "refs/heads/a?", True),
        ("refs/heads/a/", "refs/heads/a?", False),
        ("refs/heads/ab", "refs/*/[a-c]b", True),
        ("refs/heads/ab", "refs/*/[!a]b", False),
        ("refs/heads/a.b", "refs/heads/a.*", True),
        ("refs/heads/axb", "refs/heads/a.*", False),
    ],
)
def test_patterns(name: str, pattern: str, expected: bool) -> None:
    assert matches_pattern(name, pattern) is expected
