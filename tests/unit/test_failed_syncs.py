"""The simulated machine when a sync fails: its pages are clean, and lost."""

import errno
import os

import pytest

from crashsim.faults.failing_machine import SHORT_WRITE, CallFault, FailingMachine
from crashsim.model.lost_pages import after_reboot
from crashsim.model.models import MODELS
from crashsim.model.operations import Scope
from crashsim.model.simulated import Simulated
from crashsim.model.states import crash_states
from crashsim.model.tree import Tree
from tests.support.model_calls import put, sync

OLD, NEW = b"old", b"new content"


def _failed_fsync(machine: Simulated, *, scope: Scope = Scope.FILE) -> int:
    """Write new content over `value`, fail to sync it, and sync it again."""
    descriptor = machine.open("value", os.O_RDWR)
    machine.write(descriptor, NEW)
    machine.fail_sync(descriptor, scope)
    machine.fsync(descriptor)
    return descriptor


def _contents(machine: Simulated, model: str) -> set[bytes | None]:
    """What `value` may hold after a crash when everything was promised."""
    machine.promise("saved")
    log = machine.log
    states = crash_states(log, MODELS[model], since=log.operations[-1].number)
    return {state.tree.content("value") for state in states}


@pytest.mark.parametrize("model", MODELS)
def test_a_second_fsync_makes_nothing_durable_in_any_model(model: str) -> None:
    machine = Simulated(Tree.of({"value": OLD}))
    descriptor = _failed_fsync(machine)

    assert machine.pread(descriptor, 99, 0) == NEW, "running programs see it all the same"
    assert _contents(machine, model) > {NEW}


@pytest.mark.parametrize("model", [name for name in MODELS if name != "f2fs"])
def test_an_fsync_that_succeeds_at_once_is_believed(model: str) -> None:
    machine = Simulated(Tree.of({"value": OLD}))
    descriptor = machine.open("value", os.O_RDWR)
    machine.write(descriptor, NEW)
    machine.fsync(descriptor)

    assert _contents(machine, model) == {NEW}


def test_a_failed_syncfs_loses_what_is_unsynced_of_every_file() -> None:
    machine = Simulated(Tree.of({"value": OLD}))
    put(machine, "synced", b"kept", fsync=True)
    put(machine, "other", b"gone")
    _failed_fsync(machine, scope=Scope.FILESYSTEM)
    sync(machine, "other")

    tree = after_reboot(machine.log, machine.tree())

    assert tree.content("synced") == b"kept"
    assert tree.content("other") == bytes(4)
    assert tree.content("value") == OLD + bytes(len(NEW) - len(OLD))


def test_a_file_that_is_written_anew_is_whole_again() -> None:
    machine = Simulated(Tree.of({"value": OLD}))
    machine.close(_failed_fsync(machine))
    descriptor = machine.open("value", os.O_WRONLY | os.O_TRUNC)
    machine.write(descriptor, b"anew")
    machine.fsync(descriptor)

    assert after_reboot(machine.log, machine.tree()).content("value") == b"anew"
    assert _contents(machine, "ext4-ordered") == {b"anew"}


def test_the_nth_call_fails_once_or_for_good() -> None:
    machine = FailingMachine()
    machine.arm(CallFault(1, errno.ENOSPC))
    machine.make_directory("a")
    with pytest.raises(OSError, match="No space left") as caught:
        machine.make_directory("b")
    machine.make_directory("b")

    assert caught.value.filename == "b"
    machine.arm(CallFault(0, errno.ENOSPC, lasting=True))
    for name in ("c", "d"):
        with pytest.raises(OSError, match="No space left"):
            machine.make_directory(name)
    machine.remove_directory("a")  # unlink and rmdir need no space
    assert [made.path for made in machine.failed] == ["c", "d"]


def test_a_close_that_fails_has_closed() -> None:
    machine = FailingMachine()
    descriptor = machine.open("a", os.O_WRONLY | os.O_CREAT)
    machine.arm(CallFault(0, errno.EIO))
    with pytest.raises(OSError, match="Input/output"):
        machine.close(descriptor)

    with pytest.raises(OSError, match="Bad file descriptor"):
        machine.write(descriptor, b"x")


def test_a_short_write_takes_a_part_and_says_so() -> None:
    machine = FailingMachine()
    descriptor = machine.open("a", os.O_RDWR | os.O_CREAT)
    machine.arm(CallFault(0, SHORT_WRITE))

    assert machine.write(descriptor, b"abcd") == 2
    assert machine.write(descriptor, b"cd") == 2
    assert machine.pread(descriptor, 9, 0) == b"abcd"
