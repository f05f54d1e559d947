"""The git oracle on repositories of the guest's own git, which has reftables."""

from collections.abc import Iterator

import pytest

from crashsim.machines.protocol import Guest
from crashsim.machines.qemu import QemuMachine
from crashsim.machines.tree import Tree
from crashsim.oracles.git import GitOracle, cross_check, encode_promise, snapshot
from crashsim.oracles.protocol import Moment

pytestmark = pytest.mark.vm

ROOT = "/tmp/repositories"
SETUP = """
rm -rf "$1"; mkdir -p "$1"; cd "$1"
export HOME=/nonexistent GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@example.org
export GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@example.org
git init -q -b main --ref-format="$2" repo; cd repo
for number in 1 2; do
    echo "$number" >file$number; git add .; git commit -q -m "commit $number"
done
git tag -a -m tag v1
for number in 1 2; do echo "changed $number" >file1; git stash push -q; done
git update-ref refs/heads/side HEAD~1
echo staged >file3; git add file3
"""


@pytest.fixture(scope="module")
def guest() -> Iterator[Guest]:
    with QemuMachine().start() as started:
        yield started


@pytest.fixture(params=["files", "reftable"])
def repository(request: pytest.FixtureRequest, guest: Guest) -> tuple[str, Tree]:
    """(backend, the tree of a fresh repository in the guest)."""
    shell(guest, SETUP, ROOT, request.param)
    return request.param, guest.tree(ROOT)


def shell(guest: Guest, script: str, *arguments: str) -> None:
    result = guest.run(["/bin/sh", "-ec", script, "sh", *arguments])
    assert result.returncode == 0, result.stderr.decode()


def test_whole_repository(guest: Guest, repository: tuple[str, Tree]) -> None:
    backend, tree = repository
    state = snapshot(tree)
    assert (len(state.stash), len(state.refs)) == (2, 4)
    assert state.settings.get("extensions.refstorage", "files") == backend
    text = encode_promise("set-up", state)
    oracle, moment = GitOracle([text], exercise_every=1), Moment((text,))
    assert oracle.judge(tree, moment) == []
    assert cross_check(guest, ROOT).is_clean
    assert oracle.exercise_key(tree, moment) is not None
    assert oracle.exercise(guest, ROOT, tree, moment) == []


def test_poisoned_object(guest: Guest, repository: tuple[str, Tree]) -> None:
    text = encode_promise("set-up", snapshot(repository[1]))
    shell(
        guest,
        'cd "$1"; : >"$(git rev-parse :file3 | sed "s,^..,.git/objects/&/,")"',
        f"{ROOT}/repo",
    )
    tree = guest.tree(ROOT)
    oracle, moment = GitOracle([text], exercise_every=1), Moment((text,))
    found = oracle.judge(tree, moment)
    assert {one.rule for one in found} == {"index-object-empty", "poisoned-object"}
    report = cross_check(guest, ROOT)
    assert not report.is_clean
    assert report.agrees_with(found)
    assert "added-object-unreadable" in {
        one.rule for one in oracle.exercise(guest, ROOT, tree, moment)
    }


def test_lost_refs(guest: Guest, repository: tuple[str, Tree]) -> None:
    """An empty list of tables, or of packed refs: of the second, fsck says nothing."""
    backend, tree = repository
    text = encode_promise("set-up", snapshot(tree))
    name = "reftable/tables.list" if backend == "reftable" else "packed-refs"
    shell(guest, 'cd "$1"; git pack-refs --all; : >".git/$2"', f"{ROOT}/repo", name)
    found = {one.rule for one in GitOracle([text]).judge(guest.tree(ROOT), Moment((text,)))}
    assert {"ref-lost", "stash-lost"} <= found
    assert found & {"packed-refs-empty", "reftable-list-empty"}
    assert cross_check(guest, ROOT).is_clean == (backend == "files")
