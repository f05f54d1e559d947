import configparser
from collections import Counter

import pytest

from crashsim.errors import UsageError
from crashsim.workloads.git import git_workload
from crashsim.workloads.git_options import COMPONENTS, BadGitOption, GitOptions, check_components
from crashsim.workloads.git_steps import SEQUENCES, UnknownSequence, sequence, stage_files


@pytest.mark.parametrize(
    "text",
    ["default", "none", "all", "all,-index", "loose-object,pack", "pack,none", *COMPONENTS],
)
def test_what_git_takes_as_core_fsync_is_taken(text: str) -> None:
    check_components(text)


@pytest.mark.parametrize(
    "text", ["", "everything", "none,pack", "all,", ",all", "all, index", "--index", "-", "-none"]
)
def test_what_git_would_only_warn_about_is_refused(text: str) -> None:
    with pytest.raises(BadGitOption):
        check_components(text)


def test_an_unknown_component_is_told_the_known_ones() -> None:
    with pytest.raises(UsageError, match="loose-object, pack, pack-metadata"):
        GitOptions(fsync="objekts")


@pytest.mark.parametrize(
    "wrong", [{"method": "sync"}, {"ref_format": "table"}, {"object_format": "md5"}]
)
def test_every_option_is_checked(wrong: dict[str, str]) -> None:
    with pytest.raises(BadGitOption):
        GitOptions(**wrong)  # type: ignore[arg-type]


def read(options: GitOptions) -> configparser.ConfigParser:
    parser = configparser.ConfigParser()
    parser.read_string(options.configuration())
    return parser


def test_default_leaves_git_to_its_own_default() -> None:
    core = read(GitOptions())["core"]

    assert "fsync" not in core
    assert "fsyncmethod" not in core


def test_settings_reach_the_configuration_and_nothing_runs_in_the_background() -> None:
    parser = read(GitOptions(fsync="all,-index", method="batch"))

    assert parser["core"]["fsync"] == "all,-index"
    assert parser["core"]["fsyncmethod"] == "batch"
    assert parser["gc"]["auto"] == "0"
    assert parser["maintenance"]["auto"] == "false"
    assert parser["receive"]["autogc"] == "false"


@pytest.mark.parametrize("name", SEQUENCES)
def test_no_content_occurs_twice(name: str) -> None:
    staged = stage_files(sequence(name), 12, 1)
    contents = Counter(content for files in staged.values() for content in files.values())

    assert contents
    assert set(contents.values()) == {1}


def test_another_seed_shares_no_content() -> None:
    one, other = (
        {
            content
            for files in stage_files(sequence("full"), 8, seed).values()
            for content in files.values()
        }
        for seed in (1, 2)
    )

    assert not one & other


def test_the_same_seed_stages_the_same() -> None:
    assert stage_files(sequence("full"), 8, 3) == stage_files(sequence("full"), 8, 3)


@pytest.mark.parametrize("name", SEQUENCES)
def test_names_of_steps_are_unique_and_a_stage_that_is_used_is_not_empty(name: str) -> None:
    staged = stage_files(sequence(name), 4, 1)
    names = [step.name for step in sequence(name)]

    assert len(set(names)) == len(names)
    for step in sequence(name):
        assert bool(staged[step.name]) == ("$STAGE" in step.script)


def test_staged_paths_stay_inside_the_repository() -> None:
    for files in stage_files(sequence("full"), 4, 1).values():
        for path in files:
            assert not path.startswith("/")
            assert ".." not in path.split("/")


def test_an_unknown_sequence_is_told_the_known_ones() -> None:
    with pytest.raises(UnknownSequence, match="default, commit, stash"):
        git_workload("everything")
