"""Promises as texts of marks."""

import base64
import random

import pytest
import zstandard

from crashsim.machines.tree import Tree
from crashsim.oracles.git import GitOracle, GitSnapshot, decode_promise, encode_promise
from crashsim.oracles.git.oracle import HistoryMismatch
from crashsim.oracles.git.snapshot import PROMISE_LIMIT_BYTES, BadPromise, is_promise, plain
from crashsim.oracles.protocol import Moment

BOMB = zstandard.ZstdCompressor().compress(bytes(64 << 20))


def many_refs(count: int) -> GitSnapshot:
    chooser = random.Random(count)
    refs = {f"refs/tags/t{number}": f"{chooser.getrandbits(160):040x}" for number in range(count)}
    return GitSnapshot(head="ref: refs/heads/main", refs=refs)


@pytest.mark.parametrize("count", [0, 3, 1500])
def test_round_trip(count: int) -> None:
    state = many_refs(count)
    text = encode_promise("step", state, legal_between=[state], unnoted_between=["index"])
    assert len(text.encode()) <= PROMISE_LIMIT_BYTES
    assert text.isascii()
    assert text.isprintable()
    promise = decode_promise(text)
    assert (promise.step, promise.state, promise.legal_between) == ("step", state, [state])
    assert promise.unnoted_between == ["index"]
    assert not promise.one_transaction


def test_names_that_are_not_utf8_become_text() -> None:
    name = plain(b"refs/heads/\xff".decode("utf-8", "surrogateescape"))
    assert name == r"refs/heads/\xff"
    promise = decode_promise(encode_promise("step", GitSnapshot(refs={name: "a" * 40})))
    assert list(promise.state.refs) == [name]


def test_too_large() -> None:
    with pytest.raises(BadPromise, match="fewer refs"):
        encode_promise("step", many_refs(4000))


def test_unknown_part() -> None:
    with pytest.raises(BadPromise, match="worktree"):
        encode_promise("step", GitSnapshot(), unnoted_between=["worktree"])


@pytest.mark.parametrize("text", ['{"crashsim":"start"}', "", "HEAD is 1f3a", "git-promise/2 {}"])
def test_other_marks(text: str) -> None:
    assert not is_promise(text)
    with pytest.raises(BadPromise):
        decode_promise(text)


@pytest.mark.parametrize(
    "text",
    [
        "git-promise/1 {",
        'git-promise/1 {"step": 1, "state": {}}',
        "git-promise/1z ~~~not base85~~~\x7f",
        "git-promise/1z 0000000000",
        "git-promise/1z " + base64.b85encode(BOMB).decode(),
    ],
)
def test_broken_promises(text: str) -> None:
    with pytest.raises(BadPromise):
        decode_promise(text)


def test_moment_must_belong_to_the_history() -> None:
    ours, theirs = (encode_promise(step, GitSnapshot(exists=False)) for step in ("a", "b"))
    oracle = GitOracle(['{"crashsim":"start"}', ours])
    assert oracle.judge(Tree({}), Moment((ours,))) == []
    with pytest.raises(HistoryMismatch):
        oracle.judge(Tree({}), Moment((theirs,)))
