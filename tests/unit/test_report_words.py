"""Words: numbers as people say them, and untrusted text made visible."""

import pytest

from crashsim.report.words import (
    bytes_in_words,
    code_spans,
    counted,
    printable,
    seconds_in_words,
    shorten,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ünïcode ☠", "plain ünïcode ☠"),
        ("\x1b[2J\x07", r"\x1b[2J\x07"),
        ("a\u202eb\u2066", r"a\u202eb\u2066"),
        ("\udcff\ufffe", r"\udcff\ufffe"),
        ("tab\tline\n", r"tab\x09line\x0a"),
        ("\U000e0041", r"\U000e0041"),
    ],
)
def test_only_visible_characters_are_left(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_line_breaks_stay_where_they_are_wanted() -> None:
    assert printable("a\n\tb\r", keep_newlines=True) == "a\n\tb\\x0d"


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (4096, "4 KiB"),
        (1 << 20, "1 MiB"),
        (536_903_680, "512.03 MiB"),
        (16 << 30, "16 GiB"),
        (1 << 62, "4096 PiB"),
    ],
)
def test_sizes(count: int, words: str) -> None:
    assert bytes_in_words(count) == words


@pytest.mark.parametrize(
    ("seconds", "words"), [(0, "0 ms"), (0.0843, "84 ms"), (3.21, "3.2 s"), (125, "2 min 5 s")]
)
def test_durations(seconds: float, words: str) -> None:
    assert seconds_in_words(seconds) == words


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("`git` wrote `a b`.", [(True, "git"), (False, " wrote "), (True, "a b"), (False, ".")]),
        ("plain", [(False, "plain")]),
        ("a ` b", [(False, "a ` b")]),
        ("`x` and ` more", [(True, "x"), (False, " and ` more")]),
        ("``", []),
        ("", []),
    ],
)
def test_code_is_what_stands_between_two_backticks(
    text: str, parts: list[tuple[bool, str]]
) -> None:
    assert code_spans(text) == parts


def test_a_long_path_keeps_both_ends() -> None:
    assert shorten("data of .git/objects/1f/3a9c", 16) == "data …ts/1f/3a9c"
    assert len(shorten("x" * 100, 16)) == 16
    assert shorten("short", 16) == "short"


def test_counts_agree_with_their_noun() -> None:
    assert counted(1, "flush", "flushes") == "1 flush"
    assert counted(1204, "flush", "flushes") == "1,204 flushes"
    assert counted(0, "write") == "0 writes"
