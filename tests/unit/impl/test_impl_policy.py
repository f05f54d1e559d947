"""core.fsync and its kin, by git's rules as it follows them."""

import pytest

from impl.durability.components import GIT_COMPONENTS, Component
from impl.durability.policy import Policy, parse_components, platform_default, policy_from
from impl.errors import InvalidConfiguration

C = Component
DEFAULT = C.PACK | C.PACK_METADATA | C.COMMIT_GRAPH
NOTHING = Component(0)
COMMITTED = C.LOOSE_OBJECT | C.PACK | C.REFERENCE


@pytest.mark.parametrize(
    ("value", "expected", "warnings"),
    [
        ("all", GIT_COMPONENTS, 0),
        ("none", NOTHING, 0),
        ("loose-object", DEFAULT | C.LOOSE_OBJECT, 0),
        ("all,-index", GIT_COMPONENTS, 0),
        ("-index,all", GIT_COMPONENTS, 0),
        ("committed,-loose-object", DEFAULT | COMMITTED, 0),
        ("-pack", C.COMMIT_GRAPH, 0),
        ("-pack-metadata", C.PACK | C.COMMIT_GRAPH, 0),
        ("pack", DEFAULT, 0),
        ("a", GIT_COMPONENTS, 0),
        ("o,none", C.LOOSE_OBJECT | C.PACK, 0),
        ("pack,none", C.PACK | C.PACK_METADATA, 0),
        ("none,pack", DEFAULT, 1),
        ("none ", DEFAULT, 1),
        (" ,\tindex", DEFAULT | C.INDEX, 0),
        ("index ,reference", DEFAULT | C.REFERENCE, 1),
        ("-", DEFAULT, 1),
        ("frob,index", DEFAULT | C.INDEX, 1),
        ("derived-metadata", DEFAULT, 0),
        ("added", DEFAULT | COMMITTED | C.INDEX, 0),
        ("", DEFAULT, 0),
    ],
)
def test_components_of_a_value(value: str, expected: Component, warnings: int) -> None:
    said: list[str] = []

    assert parse_components(value, DEFAULT, said.append) == expected
    assert len(said) == warnings


def made_from(*entries: tuple[str, str | None]) -> tuple[Policy, list[str]]:
    said: list[str] = []
    start = platform_default("linux")
    return policy_from(entries, {"fsync", "batch"}.__contains__, said.append, start), said


def test_the_last_value_replaces_those_before() -> None:
    policy, _ = made_from(("core.fsync", "all"), ("core.fsync", "index"))

    assert policy.components == DEFAULT | C.INDEX


def test_an_empty_value_is_the_platforms_default() -> None:
    policy, _ = made_from(("core.fsync", "all"), ("core.fsync", ""))

    assert policy.components == DEFAULT


def test_an_unknown_method_is_warned_about_and_the_old_one_kept() -> None:
    policy, said = made_from(("core.fsyncmethod", "batch"), ("core.fsyncmethod", "frob"))

    assert policy.method == "batch"
    assert said == ["ignoring unknown core.fsyncMethod value 'frob'"]


@pytest.mark.parametrize("key", ["core.fsync", "core.fsyncmethod"])
def test_a_key_without_value_is_refused(key: str) -> None:
    with pytest.raises(InvalidConfiguration, match="missing value"):
        made_from((key, None))


def test_fsync_object_files_syncs_loose_objects_under_none_too() -> None:
    policy, said = made_from(("core.fsync", "none"), ("core.fsyncobjectfiles", "true"))

    assert policy.wants(C.LOOSE_OBJECT)
    assert not policy.wants(C.PACK)
    assert len(said) == 1


def test_fsync_object_files_false_turns_nothing_off() -> None:
    policy, _ = made_from(("core.fsync", "all"), ("core.fsyncobjectfiles", "false"))

    assert policy.components == GIT_COMPONENTS


@pytest.mark.parametrize("value", ["2", "batch"])
def test_the_proposals_spelling_chooses_its_method(value: str) -> None:
    policy, _ = made_from(("core.fsyncobjectfiles", value))

    assert policy.method == "bulk-rename"
    assert policy.wants(C.LOOSE_OBJECT)


@pytest.mark.parametrize("component", [C.REFLOG, C.OTHER])
def test_no_setting_covers_reflogs_and_state(component: Component) -> None:
    policy, _ = made_from(("core.fsync", "all"))

    assert not policy.wants(component)


@pytest.mark.parametrize(
    ("platform", "components", "method"),
    [
        ("linux", DEFAULT, "fsync"),
        ("darwin", DEFAULT, "writeout-only"),
        ("win32", DEFAULT | C.LOOSE_OBJECT, "batch"),
    ],
)
def test_platforms(platform: str, components: Component, method: str) -> None:
    assert platform_default(platform) == Policy(components, method)
