"""A machine with two filesystems: what it refuses, and what one crash leaves of both."""

import errno
import os
from functools import partial

import pytest

from crashsim.model.models import MODELS
from crashsim.model.operations import Scope
from crashsim.model.several import homes
from crashsim.model.simulated import Simulated
from crashsim.model.states import allows, crash_states
from crashsim.model.tree import Directory, Tree
from tests.support.model_calls import NEW, append, put, sync

BASE = Tree.of({"objects/ab": Directory(), "index": b"old", "refs/main": b"1"})
Machine = partial(Simulated, BASE)
apart = partial(Simulated, BASE, mounts=("objects",))

IN_ONE_LOG = ["ext4-ordered", "ext4-writeback", "xfs", "ntfs", "apfs"]
"""Filesystems on which the fsync of one file makes the names durable that came before."""


def store(machine: Simulated) -> None:
    """What git does by default: an object and then the index, each synced before it is named."""
    put(machine, "objects/ab/tmp", fsync=True)
    machine.link("objects/ab/tmp", "objects/ab/new")
    machine.unlink("objects/ab/tmp")
    put(machine, "index.lock", b"new", fsync=True)
    machine.rename("index.lock", "index")


def loses_the_object(machine: Simulated, model: str) -> bool:
    """Whether some crash leaves an index whose object is not there."""
    trees = [state.tree for state in crash_states(machine.log, MODELS[model])]
    assert any(tree.content("index") == b"new" for tree in trees)
    return any(
        tree.content("index") == b"new" and tree.content("objects/ab/new") != NEW for tree in trees
    )


@pytest.mark.parametrize("model", IN_ONE_LOG)
def test_what_one_log_keeps_in_order_two_do_not(model: str) -> None:
    together, separate = Machine(), apart()
    store(together)
    store(separate)
    assert not loses_the_object(together, model)
    assert loses_the_object(separate, model)


@pytest.mark.parametrize("model", sorted(set(MODELS) - {"f2fs"}))
def test_a_sync_of_the_objects_directory_before_the_index_helps(model: str) -> None:
    machine = apart()
    put(machine, "objects/ab/new", fsync=True)
    sync(machine, "objects/ab")
    put(machine, "index.lock", b"new", fsync=True)
    machine.rename("index.lock", "index")
    assert not loses_the_object(machine, model)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("synced", ["objects", "index"])
def test_syncfs_is_of_one_filesystem(model: str, synced: str) -> None:
    machine = apart()
    append(machine, "index", b"more")
    put(machine, "objects/new")
    descriptor = machine.open(synced, os.O_RDONLY)
    machine.sync_filesystem(descriptor)
    machine.promise("synced")
    after = [s.tree for s in crash_states(machine.log, MODELS[model]) if s.promises]
    found = {(tree.content("index"), tree.content("objects/new")) for tree in after}
    if synced == "objects":
        assert {new for _, new in found} == {NEW}
        assert (b"old", NEW) in found
    else:
        assert {index for index, _ in found} == {b"oldmore"}
        assert (b"oldmore", None) in found


@pytest.mark.parametrize("model", MODELS)
def test_a_crash_takes_both_at_one_instant(model: str) -> None:
    """What was done later on one, and synced, tells that the other's sync was before it."""
    machine = apart()
    put(machine, "objects/new")
    with_objects = machine.open("objects", os.O_RDONLY)
    machine.sync_filesystem(with_objects)
    append(machine, "index", b"more")
    states = list(crash_states(machine.log, MODELS[model]))
    assert any(state.tree.content("index") == b"oldmore" for state in states)
    for state in states:
        if state.tree.content("index") == b"oldmore":
            assert state.tree.content("objects/new") == NEW


def test_what_is_lost_is_told_of_both() -> None:
    machine = apart()
    machine.rename("index", "renamed")
    renamed = machine.operations[-1].number
    put(machine, "objects/new", fsync=True)
    machine.promise("objects/new")
    states = [s for s in crash_states(machine.log, MODELS["xfs"]) if s.promises]
    assert {tuple(each.number for each in state.lost) for state in states} == {(), (renamed,)}


def test_rename_and_link_do_not_lead_from_one_to_the_other() -> None:
    machine = apart()
    put(machine, "objects/new")
    for call in (machine.rename, machine.link):
        for source, target in (("index", "objects/index"), ("objects/new", "new")):
            with pytest.raises(OSError, match="Invalid cross-device link") as refusal:
                call(source, target)
            assert refusal.value.errno == errno.EXDEV
    machine.rename("objects/new", "objects/ab/new")
    assert machine.stat("objects/ab/new").st_dev == machine.stat("objects").st_dev


def test_a_mount_point_stays_where_it_is() -> None:
    machine = Simulated(Tree.of({"objects": Directory()}), mounts=("objects",))
    with pytest.raises(OSError, match="busy"):
        machine.remove_directory("objects")
    with pytest.raises(OSError, match="busy"):
        machine.rename("objects", "elsewhere")
    with pytest.raises(ValueError, match="not there"):
        Simulated(mounts=("objects",))


def test_devices_are_told_by_stat_and_kept_in_the_log() -> None:
    machine = apart()
    put(machine, "objects/ab/new")
    first, second = machine.stat("/").st_dev, machine.stat("objects").st_dev
    assert first != second
    assert machine.stat("index").st_dev == machine.lstat("refs/main").st_dev == first
    assert machine.stat("objects/ab/new").st_dev == machine.stat("objects/ab").st_dev == second
    assert machine.log.without([]).mounts == machine.log.mounts == (BASE.inodes["objects"],)
    numbers = homes(machine.log)
    assert {path: numbers[inode] for path, inode in machine.tree().inodes.items()} == {
        "index": 0,
        "refs": 0,
        "refs/main": 0,
        "objects": 1,
        "objects/ab": 1,
        "objects/ab/new": 1,
    }


def test_a_sync_that_fails_drops_pages_of_its_own_filesystem_only() -> None:
    machine = apart()
    append(machine, "index", b"more")
    put(machine, "objects/new")
    descriptor = machine.open("objects", os.O_RDONLY)
    machine.fail_sync(descriptor, Scope.FILESYSTEM)
    sync(machine, "index")
    sync(machine, "objects/new")
    machine.promise("synced")
    after = [s.tree for s in crash_states(machine.log, MODELS["xfs"]) if s.promises]
    assert {tree.content("index") for tree in after} == {b"oldmore"}
    assert any(tree.content("objects/new") != NEW for tree in after)


def test_whether_a_tree_is_allowed_is_asked_of_both() -> None:
    machine = apart()
    store(machine)
    lost = Tree.of({"objects/ab/tmp": NEW, "index": b"new", "refs/main": b"1"})
    together = Machine()
    store(together)
    assert allows(machine.log, MODELS["ext4-ordered"], lost)
    assert not allows(together.log, MODELS["ext4-ordered"], lost)
