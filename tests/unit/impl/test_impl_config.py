"""Configuration: its text, its values, and where it comes from."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from impl.config import (
    Configuration,
    Entry,
    Scope,
    as_boolean,
    as_integer,
    command_entries,
    load_configuration,
    normal_key,
)
from impl.config_syntax import format_entry, format_section, parse_configuration
from impl.durability.port import OsPort
from impl.errors import InvalidConfiguration

SAMPLE = b"""\xef\xbb\xbf# comment
[core]
\tBare = false ; comment
\tempty =
\tflag
[Branch "Ma\\"in"]\tremote = origin
[section.Sub] key = "  quoted # ; " and more\\t\\
 continued\r
[a-b] x-y = 1
"""


def test_every_form_of_an_entry() -> None:
    assert list(parse_configuration(SAMPLE, "config")) == [
        ("core.bare", "false"),
        ("core.empty", ""),
        ("core.flag", None),
        ('branch.Ma"in.remote', "origin"),
        ("section.sub.key", "  quoted # ;  and more\t continued"),
        ("a-b.x-y", "1"),
    ]


def test_git_reads_the_same(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_bytes(SAMPLE)
    listed = subprocess.run(
        ["git", "config", "-z", "--list", "--file", str(path)], capture_output=True, check=True
    ).stdout

    pairs = [entry.partition("\n") for entry in listed.decode().split("\0") if entry]

    assert [(key, value if mark else None) for key, mark, value in pairs] == list(
        parse_configuration(SAMPLE, "config")
    )


@pytest.mark.parametrize(
    "text",
    [
        b"key = 1\n",
        b"[core\n",
        b"[core]\n1key = 2\n",
        b"[core]\nkey : 2\n",
        b'[core]\nkey = "open\n',
        b"[core]\nkey = \\x\n",
        b'[core "a\nb"]\n',
        b"\0\0\0\0",
    ],
)
def test_what_git_refuses_is_refused_with_its_line(text: bytes) -> None:
    with pytest.raises(InvalidConfiguration, match=r"bad config line \d in file there"):
        list(parse_configuration(text, "there"))


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=30))
def test_a_written_value_reads_back(value: str) -> None:
    text = "[s]\n" + format_entry("key", value)

    assert list(parse_configuration(text.encode(), "config")) == [("s.key", value)]


@given(st.binary(max_size=60))
def test_no_bytes_make_the_parser_fail_otherwise(text: bytes) -> None:
    try:
        list(parse_configuration(b"[core]\n" + text, "config"))
    except InvalidConfiguration:
        return


def test_sections_are_written_as_they_are_read() -> None:
    header, name = format_section('branch.a"b\\c.Remote'.replace("Remote", "remote"))

    assert list(parse_configuration((header + format_entry(name, "x")).encode(), "")) == [
        ('branch.a"b\\c.remote', "x")
    ]


@pytest.mark.parametrize(
    ("value", "expected"),
    [(None, True), ("Yes", True), ("on", True), ("2", True), ("0", False), ("", False)],
)
def test_booleans(value: str | None, expected: bool) -> None:
    assert as_boolean("key", value) is expected


def test_what_is_no_boolean_or_number_is_refused() -> None:
    with pytest.raises(InvalidConfiguration, match="bad boolean"):
        as_boolean("key", "maybe")
    with pytest.raises(InvalidConfiguration, match="bad numeric"):
        as_integer("key", "1x")


@pytest.mark.parametrize(("value", "expected"), [("1k", 1024), ("-2M", -2 << 20), ("7", 7)])
def test_numbers_with_units(value: str, expected: int) -> None:
    assert as_integer("key", value) == expected


def test_a_huge_number_is_refused_and_not_computed() -> None:
    with pytest.raises(InvalidConfiguration):
        as_integer("key", "9" * 10_000)


def test_command_settings_come_last_and_keep_bare_keys_apart() -> None:
    environment = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "A.B", "GIT_CONFIG_VALUE_0": "x"}

    assert command_entries(["c.D=1=2", "e.f"], environment) == [
        Entry("a.b", "x", Scope.COMMAND),
        Entry("c.d", "1=2", Scope.COMMAND),
        Entry("e.f", None, Scope.COMMAND),
    ]


def test_a_missing_variable_of_the_environment_is_named() -> None:
    with pytest.raises(InvalidConfiguration, match="GIT_CONFIG_KEY_0"):
        command_entries([], {"GIT_CONFIG_COUNT": "1"})


@pytest.mark.parametrize("key", ["", "core", "core.", ".x"])
def test_keys_need_a_section_and_a_name(key: str) -> None:
    with pytest.raises(InvalidConfiguration):
        normal_key(key)


def test_subsections_keep_their_case() -> None:
    assert normal_key("Branch.Main.x.Remote") == "branch.Main.x.remote"


def test_the_last_entry_wins() -> None:
    entries = [Entry("a.b", "1", Scope.GLOBAL), Entry("a.b", "2", Scope.REPOSITORY)]

    assert Configuration(entries).get("a.b") == "2"
    assert Configuration(entries).all("a.b") == ["1", "2"]


def test_files_are_included_and_rings_are_noticed(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("[include]\npath = more\n[a]\nb = 2\n")
    (tmp_path / "more").write_text("[a]\nb = 1\nc = 3\n")
    environment = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": ""}

    config = load_configuration(OsPort(), str(tmp_path), (), environment)

    assert (config.get("a.b"), config.get("a.c")) == ("2", "3")
    (tmp_path / "more").write_text("[include]\npath = config\n")
    with pytest.raises(InvalidConfiguration, match="ring"):
        load_configuration(OsPort(), str(tmp_path), (), environment)
