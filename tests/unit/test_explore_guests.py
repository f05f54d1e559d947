"""The recoverer of real machines, with scripted guests on the real crash disk."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from crashsim.disk.request import PAGE_BYTES, Operation, Request
from crashsim.disk.state import CrashState
from crashsim.explore.guests import GuestRecoverer
from crashsim.explore.recovery import GuestLost, RecovererAborted
from crashsim.machines.failures import AgentError, Cause, GuestDied
from crashsim.machines.protocol import Guest, MachineInfo, Mount, Recovery
from crashsim.machines.tree import Tree
from crashsim.oracles.protocol import Moment, Violation
from tests.support import toy_store
from tests.support.scripted_guest import INFO, ScriptedGuest
from tests.support.toy_exploring import Toy, ToyOracle

MOUNT = Mount(0, "toy", "ro")


@dataclass
class ToyKernel(ScriptedGuest):
    """A scripted guest that can mount the toy store; `trouble` may change how that ends."""

    trouble: Callable[[Recovery], Recovery] = lambda recovery: recovery

    def read_page(self, page: int) -> bytes:
        assert self.disk is not None
        return self.disk.perform(Request(Operation.READ, page * PAGE_BYTES, PAGE_BYTES))

    def recover(
        self, mount: Mount, *, exclude: Sequence[str] = (), collect: Sequence[str] = ("",)
    ) -> Recovery:
        assert self.alive
        self.calls.append(("recover", (mount, tuple(exclude), tuple(collect))))
        return self.trouble(toy_store.recover(self.read_page))


@dataclass
class ToyMachine:
    """Starts guests; the first ones with what `troubles` holds."""

    troubles: list[Callable[[Recovery], Recovery]] = field(default_factory=list)
    guests: list[ToyKernel] = field(default_factory=list)
    info: MachineInfo = INFO

    def start(self) -> ToyKernel:
        guest = ToyKernel()
        if self.troubles:
            guest.trouble = self.troubles.pop(0)
        self.guests.append(guest)
        return guest


@pytest.fixture
def toy(tmp_path: Path) -> Iterator[Toy]:
    with Toy.record(tmp_path / "log", (toy_store.Put(1), toy_store.Put(2))) as toy:
        yield toy


def recoverer_of(toy: Toy, machine: ToyMachine) -> GuestRecoverer:
    return GuestRecoverer(machine, toy.images, MOUNT, exclude=["noise"], collect=["a", "b"])


def die(cause: Cause) -> Callable[[Recovery], Recovery]:
    def trouble(recovery: Recovery) -> Recovery:
        raise GuestDied(cause, "while mounting")

    return trouble


def refuse(recovery: Recovery) -> Recovery:
    raise AgentError("the tree is too large")


def taint(recovery: Recovery) -> Recovery:
    return Recovery(recovery.tree, tainted=True)


def test_one_guest_recovers_state_after_state_and_is_ended(toy: Toy) -> None:
    machine = ToyMachine()
    with recoverer_of(toy, machine) as recoverer:
        assert not machine.guests, "no guest before there is work"
        files = []
        for cut in (toy.timeline.start, toy.timeline.end):
            with recoverer.recover(CrashState(cut)) as attempt:
                assert attempt.recovery.tree is not None
                files.append(list(attempt.recovery.tree.nodes))
                assert toy_store.JOURNAL_FIRST in attempt.pages_read()
        assert files == [[], ["1", "2"]]
        (guest,) = machine.guests
        assert guest.names() == ["attach", "recover", "unmount", "recover", "unmount"]
        assert guest.calls[1] == ("recover", (MOUNT, ("noise",), ("a", "b")))
    assert not guest.alive


@pytest.mark.parametrize(
    ("trouble", "panicked"),
    [
        (die(Cause.PANIC), True),
        (die(Cause.OOPS), True),
        (die(Cause.HUNG), False),
        (die(Cause.HUNG_TASK), False),
        (die(Cause.GONE), False),
        (refuse, False),
    ],
)
def test_a_guest_that_fails_is_told_and_replaced(
    toy: Toy, trouble: Callable[[Recovery], Recovery], panicked: bool
) -> None:
    machine = ToyMachine([trouble])
    with recoverer_of(toy, machine) as recoverer:
        with pytest.raises(GuestLost) as lost, recoverer.recover(CrashState(toy.timeline.end)):
            pytest.fail("nothing was recovered")
        assert lost.value.panicked is panicked
        with recoverer.recover(CrashState(toy.timeline.end)) as attempt:
            assert attempt.recovery.tree is not None
    assert [guest.alive for guest in machine.guests] == [False, False]


def test_a_tainted_guest_is_used_for_this_state_and_then_replaced(toy: Toy) -> None:
    machine = ToyMachine([taint])
    with recoverer_of(toy, machine) as recoverer:
        with recoverer.recover(CrashState(toy.timeline.end)) as attempt:
            assert attempt.recovery.tree is not None
            assert machine.guests[0].alive
        assert not machine.guests[0].alive
        assert recoverer.replaced == 1


def test_what_did_not_mount_is_not_unmounted(toy: Toy) -> None:
    machine = ToyMachine([lambda _: Recovery(None, "EUCLEAN")])
    with recoverer_of(toy, machine) as recoverer:
        with recoverer.recover(CrashState(toy.timeline.end)) as attempt:
            assert attempt.recovery.mount_error == "EUCLEAN"
        assert machine.guests[0].names() == ["attach", "recover"]


def test_a_guest_that_cannot_unmount_is_replaced_and_its_answer_stands(
    toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(guest: ToyKernel, slot: int) -> None:
        raise AgentError("busy", "EBUSY")

    monkeypatch.setattr(ToyKernel, "unmount", busy)
    machine = ToyMachine()
    with recoverer_of(toy, machine) as recoverer:
        for _ in range(2):
            with recoverer.recover(CrashState(toy.timeline.end)) as attempt:
                assert attempt.recovery.tree is not None
    assert len(machine.guests) == 2


class DeadlyOracle(ToyOracle):
    """Kills the guest that it is to exercise."""

    def exercise(self, guest: Guest, root: str, tree: Tree, moment: Moment) -> list[Violation]:
        assert root == "/mnt/0"
        raise GuestDied(Cause.PANIC, "while running a check")


def test_a_guest_that_dies_while_exercised_is_replaced(toy: Toy) -> None:
    machine = ToyMachine()
    tree, moment = Tree({}), Moment(())
    with recoverer_of(toy, machine) as recoverer:
        with (
            pytest.raises(GuestLost),
            recoverer.recover(CrashState(toy.timeline.end)) as attempt,
        ):
            attempt.exercise(DeadlyOracle(), tree, moment)
        assert not machine.guests[0].alive


def test_an_abort_ends_the_guest_and_whatever_it_is_doing(toy: Toy) -> None:
    machine = ToyMachine()
    with recoverer_of(toy, machine) as recoverer:
        with recoverer.recover(CrashState(toy.timeline.end)):
            pass

        def aborted(recovery: Recovery) -> Recovery:
            recoverer.abort()
            raise GuestDied(Cause.ENDED, "ended")

        machine.guests[0].trouble = aborted
        with ExitStack() as stack:
            with pytest.raises(RecovererAborted):
                stack.enter_context(recoverer.recover(CrashState(toy.timeline.end)))
            with pytest.raises(RecovererAborted):
                stack.enter_context(recoverer.recover(CrashState(toy.timeline.end)))
    assert len(machine.guests) == 1
    assert not machine.guests[0].alive
