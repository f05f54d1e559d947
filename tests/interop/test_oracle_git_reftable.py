"""Reftables that git 2.47 wrote (tests/data/oracle), whole and damaged."""

import functools
import struct
import tarfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crashsim.machines.tree import Tree
from crashsim.oracles.git import GitOracle, encode_promise, snapshot
from crashsim.oracles.git.cache import ContentCache
from crashsim.oracles.git.damage import Damage
from crashsim.oracles.git.reflog import make_reflog
from crashsim.oracles.git.reftable_table import Reftable, parse_reftable
from crashsim.oracles.git.repository import open_repository
from crashsim.oracles.protocol import Moment
from tests.support.host_tree import changed_tree, host_tree

ARCHIVE = Path(__file__).parents[1] / "data" / "oracle" / "reftable.tar.gz"
STATES = ("1-commits", "2-stashes", "3-transaction", "4-compacted", "5-deleted")
FORMATS = ("sha1", "sha256")


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("reftable")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(root)
    return root


@pytest.fixture(scope="module")
def states(unpacked: Path) -> dict[str, Tree]:
    return {
        f"{form}-{state}": host_tree(unpacked / f"{form}-{state}")
        for form in FORMATS
        for state in STATES
    }


def ref_lines(tree: Tree) -> Iterator[str]:
    """What the archive's `expected` holds, from our reader."""
    taken = snapshot(tree)
    yield taken.head.removeprefix("ref: ")
    yield from (f"{value} {name}" for name, value in taken.refs.items())
    yield from (f"stash {oid}" for oid in taken.stash)
    refs = open_repository(tree, "repo/.git", ContentCache()).refs
    for name in ("HEAD", "refs/heads/main", "refs/heads/feature"):
        log = refs.reflogs.get(name, make_reflog([]))
        for entry in reversed(log.entries):
            yield f"{name} {entry.new} {entry.message}"


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("form", FORMATS)
def test_reads_what_git_reads(
    unpacked: Path, states: dict[str, Tree], form: str, state: str
) -> None:
    name = f"{form}-{state}"
    assert list(ref_lines(states[name])) == (unpacked / name / "expected").read_text().splitlines()


@pytest.mark.parametrize("form", FORMATS)
def test_states_in_their_order(states: dict[str, Tree], form: str) -> None:
    trees = [states[f"{form}-{state}"] for state in STATES]
    texts = [
        encode_promise(state, snapshot(tree), one_transaction=state == "3-transaction")
        for state, tree in zip(STATES, trees, strict=True)
    ]
    oracle = GitOracle(texts)
    for number, tree in enumerate(trees):
        assert oracle.judge(tree, Moment(tuple(texts[: number + 1]))) == []
        assert oracle.judge(tree, Moment(tuple(texts[:number]))) == []
    lost = {one.rule for one in oracle.judge(trees[1], Moment(tuple(texts[:3])))}
    assert lost == {"ref-lost"}
    lost = {one.rule for one in oracle.judge(trees[0], Moment(tuple(texts[:2])))}
    assert lost == {"ref-lost", "stash-lost", "reflog-lost", "index-lost"} & lost
    assert {"ref-lost", "stash-lost", "reflog-lost"} <= lost


def test_tables_have_many_blocks(states: dict[str, Tree]) -> None:
    """So the reader's way from block to block is in use."""
    content = table(states["sha1-3-transaction"])[1]
    assert int.from_bytes(content[25:28], "big") < len(content) // 2


def table(tree: Tree) -> tuple[str, bytes]:
    path = next(path for path in tree.nodes if path.endswith(".ref"))
    content = tree.read(path)
    assert content is not None
    return path, content


LIST = "repo/.git/reftable/tables.list"
DAMAGES: list[tuple[str, Callable[[bytes], bytes | None], str]] = [
    ("list", lambda _: b"", "reftable-list-empty"),
    ("list", lambda _: None, "reftable-list-empty"),
    ("list", lambda content: bytes(len(content)), "reftable-unreadable"),
    ("list", lambda content: content[:-1], "reftable-unreadable"),
    ("list", lambda content: content + b"no-such.ref\n", "reftable-unreadable"),
    ("list", lambda content: content + b"../x.ref\n", "reftable-unreadable"),
    ("table", lambda _: b"", "reftable-unreadable"),
    ("table", lambda _: None, "reftable-unreadable"),
    ("table", lambda content: bytes(len(content)), "reftable-unreadable"),
    ("table", lambda content: content[:-68], "reftable-unreadable"),
    ("table", lambda content: content[:-1], "reftable-unreadable"),
    ("table", lambda content: content[:40] + bytes(400) + content[440:], "reftable-unreadable"),
]


@pytest.mark.parametrize(("which", "change", "rule"), DAMAGES)
@pytest.mark.parametrize("form", FORMATS)
def test_damage(
    states: dict[str, Tree],
    form: str,
    which: str,
    change: Callable[[bytes], bytes | None],
    rule: str,
) -> None:
    tree = states[f"{form}-2-stashes"]
    text = encode_promise("stashes", snapshot(tree))
    path = LIST if which == "list" else table(tree)[0]
    content = tree.read(path)
    assert content is not None
    damaged = changed_tree(tree, {path: change(content)})
    found = {one.rule for one in GitOracle([text]).judge(damaged, Moment((text,)))}
    assert found == {rule, "head-lost", "ref-lost", "stash-lost", "reflog-lost"}


def test_lost_extension_is_told(states: dict[str, Tree]) -> None:
    tree = states["sha256-1-commits"]
    text = encode_promise("commits", snapshot(tree))
    damaged = changed_tree(tree, {"repo/.git/config": b""})
    found = {one.rule for one in GitOracle([text]).judge(damaged, Moment((text,)))}
    assert found == {"config-extensions-lost", "config-lost"}


def test_footer_crc_is_checked(states: dict[str, Tree]) -> None:
    content = bytearray(table(states["sha1-1-commits"])[1])
    content[-20] ^= 1
    assert isinstance(parse_reftable(bytes(content)), Damage)
    struct.pack_into(">I", content, len(content) - 4, zlib.crc32(content[-68:-4]))
    assert isinstance(parse_reftable(bytes(content)), Reftable)


@functools.cache
def some_table() -> bytes:
    with tarfile.open(ARCHIVE) as archive:
        name = next(name for name in archive.getnames() if "sha1-2" in name and name[-4:] == ".ref")
        file = archive.extractfile(name)
        assert file is not None
        return file.read()


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_any_bytes_are_a_table_or_damage(data: st.DataObject) -> None:
    """Never an exception, whatever is in the file."""
    content = bytearray(some_table())
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(content) - 1))
        size = data.draw(st.integers(1, 40))
        content[position : position + size] = data.draw(st.binary(min_size=size, max_size=size))
    struct.pack_into(">I", content, len(content) - 4, zlib.crc32(content[-68:-4]))
    assert isinstance(parse_reftable(bytes(content)), Reftable | Damage)
