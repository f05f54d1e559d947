"""Paths that must not be tracked, and how paths are shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from impl.errors import HostilePath
from impl.ignore import glob_pattern, parse_rules
from impl.paths import check_path, quoted, relative_path, unquoted


@pytest.mark.parametrize(
    "path",
    [
        b"",
        b"/etc/passwd",
        b"../x",
        b"a/../b",
        b"a/./b",
        b"a//b",
        b"a/",
        b"a\0b",
        b".git",
        b".GIT/config",
        b"a/.git/hooks/post-checkout",
        b".git ",
        b".git...",
        b".git. . /x",
        b"git~1/config",
        b"GIT~1",
        b".git::$INDEX_ALLOCATION/x",
        b".git:x",
        b"a\\.git\\config",
        b".git\\config",
        ".g\u200cit".encode(),
        ".\ufeffGi\u202et/config".encode(),
    ],
)
def test_hostile_paths_are_refused(path: bytes) -> None:
    with pytest.raises(HostilePath):
        check_path(path)


@pytest.mark.parametrize(
    "path",
    [b"a", b".gitignore", b"a/.gitmodules", b".github/x", b"git", b"git~2", b"a...", b"\xff\xfe"],
)
def test_ordinary_paths_are_not(path: bytes) -> None:
    check_path(path)


@pytest.mark.parametrize(
    "path", ["/tree/../x", "/treetop", "/", "/tree/.git/config", "/tree/a/../../b"]
)
def test_arguments_do_not_leave_the_tree(path: str) -> None:
    with pytest.raises(HostilePath):
        relative_path("/tree", path)


def test_arguments_are_made_relative() -> None:
    assert relative_path("/tree", "/tree/a/../b//c/") == b"b/c"
    assert relative_path("/tree", "/tree") == b""
    assert relative_path("/", "/a") == b"a"


@given(st.binary(max_size=20))
def test_quoting_is_undone(path: bytes) -> None:
    shown = quoted(path)

    assert shown.isascii()
    assert shown.isprintable()
    assert unquoted(shown.encode()) == path


def test_quotes_are_gits() -> None:
    assert quoted("ü\t".encode()) == '"\\303\\274\\t"'
    assert quoted(b"plain name") == "plain name"


@pytest.mark.parametrize("line", [b'"open', b'"', b'"a\\qb"', b'"a\\"'])
def test_bad_quotes_are_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match="quoted"):
        unquoted(line)


@pytest.mark.parametrize(
    ("glob", "path", "matches"),
    [
        (b"*.o", b"a.o", True),
        (b"*.o", b"a/b.o", False),
        (b"a/**/b", b"a/x/y/b", True),
        (b"a/**/b", b"a/b", True),
        (b"**/b", b"x/b", True),
        (b"a/**", b"a/x/y", True),
        (b"a?c", b"a/c", False),
        (b"[a-c]x", b"bx", True),
        (b"[!a-c]x", b"bx", False),
        (b"[z-a]", b"b", False),
        (b"\\*", b"*", True),
        (b"\\*", b"a", False),
        (b"[", b"[", True),
        (b"a.b", b"axb", False),
    ],
)
def test_globs(glob: bytes, path: bytes, matches: bool) -> None:
    assert (glob_pattern(glob).fullmatch(path) is not None) is matches


@given(st.binary(max_size=12))
def test_every_glob_compiles(glob: bytes) -> None:
    glob_pattern(glob)
    glob_pattern(glob, star_crosses_slash=True)


def test_exclude_files() -> None:
    rules = parse_rules(b"# no\n\n*.o\n!keep.o\n/top\nbuild/\nd/x\ntail \\ \n")

    def ignored(path: bytes, is_directory: bool = False) -> bool:
        found = [rule for rule in rules if rule.matches(path, is_directory)]
        return bool(found) and not found[-1].is_negated

    assert ignored(b"a/b.o")
    assert not ignored(b"a/keep.o")
    assert ignored(b"top")
    assert not ignored(b"a/top")
    assert ignored(b"a/build", is_directory=True)
    assert not ignored(b"a/build")
    assert ignored(b"d/x")
    assert not ignored(b"e/d/x")
    assert ignored(b"tail  ")
    assert not ignored(b"tail ")
