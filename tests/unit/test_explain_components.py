import pytest

from crashsim.explain.components import git_component

OBJECT = "3f/9c0e3ad5a0e4e9d9f9d4f0a7e9b1c2d3e4f5a6"


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (f"objects/{OBJECT}", "loose-object"),
        (f"objects/tmp_objdir-bulk-fsync-Xy12/{OBJECT}", "loose-object"),
        ("objects/pack/pack-1234.pack", "pack"),
        ("objects/pack/tmp_pack_Ab12", None),
        ("objects/pack/pack-1234.idx", "pack-metadata"),
        ("objects/pack/pack-1234.rev", "pack-metadata"),
        ("objects/pack/multi-pack-index", "pack-metadata"),
        ("objects/pack/multi-pack-index.d/multi-pack-index-12.midx", "pack-metadata"),
        ("objects/pack/multi-pack-index.d/multi-pack-index-chain", ""),
        ("objects/pack/pack-1234.keep", ""),
        ("objects/info/commit-graph", "commit-graph"),
        ("objects/info/commit-graphs/graph-12.graph", "commit-graph"),
        ("objects/info/commit-graphs/commit-graph-chain", ""),
        ("index", "index"),
        ("sharedindex.0a1b", "index"),
        ("refs/heads/main", "reference"),
        ("refs/stash", "reference"),
        ("packed-refs", "reference"),
        ("reftable/0x000000000001-0x000000000001-abc.ref", "reference"),
        ("reftable/tables.list", "reference"),
        ("ORIG_HEAD", "reference"),
        ("logs/refs/stash", ""),
        ("logs/HEAD", ""),
        ("config", ""),
        ("COMMIT_EDITMSG", ""),
        ("MERGE_MSG", ""),
        ("shallow", ""),
    ],
)
def test_the_component_of_each_kind_of_file(path: str, name: str | None) -> None:
    component = git_component(f"repo/.git/{path}", "repo/.git")

    assert (component.name if component is not None else None) == name


def test_head_is_synced_only_while_it_is_detached() -> None:
    symbolic = git_component("repo/.git/HEAD", "repo/.git", b"ref: refs/heads/main\n")
    detached = git_component("repo/.git/HEAD", "repo/.git", b"3f9c" * 10 + b"\n")

    assert symbolic is not None
    assert symbolic.name == ""
    assert "no setting of git syncs" in symbolic.advice()
    assert detached is not None
    assert detached.name == "reference"


def test_a_bare_repository_has_components_too() -> None:
    component = git_component("remote.git/packed-refs", "remote.git")

    assert component is not None
    assert component.name == "reference"


def test_files_beside_the_repository_are_of_the_working_tree() -> None:
    component = git_component("repo/src/index", "repo/.git")

    assert component is not None
    assert component.kind == "files of the working tree"
    assert git_component("elsewhere/index", "repo/.git") is None
    assert git_component("remote.git.bak/index", "remote.git") is None


def test_advice_names_the_component_and_what_includes_it() -> None:
    component = git_component(f"repo/.git/objects/{OBJECT}", "repo/.git")

    assert component is not None
    assert component.advice() == (
        "`core.fsync=loose-object` (or `objects`, `committed`, `added`, `all`) with "
        "`core.fsyncMethod=fsync` adds that call"
    )
