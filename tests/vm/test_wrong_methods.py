"""The wrong fsync methods are caught on real kernels, too, and the right but unusual one is not.

The same as `crashsim validate MODULE:CLASS --fs FS …` with the figures of CASES, without the model
(the table in docs/write-a-method.md). Under emulation each takes half a minute and more, so only
those in `ALWAYS` run unless pytest is given `--all-wrong-methods`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from crashsim.campaigns.methods import find_method
from crashsim.campaigns.options import RunOptions
from crashsim.campaigns.validate import validate_on_kernels
from crashsim.campaigns.validation import broken_by_the_method
from crashsim.faults.disturbances import parse_disturbances
from crashsim.machines.filesystems import parse_filesystem
from crashsim.machines.qemu import QemuMachine
from impl.durability.method import FsyncMethod
from tests.support import wrong_methods
from tests.support.wrong_methods import WRONG, StrictInAnotherOrder

pytestmark = [pytest.mark.vm, pytest.mark.slow, pytest.mark.timeout(900)]


SEED = 0


@dataclass(frozen=True)
class Case:
    """Where a wrong method is caught.

    :ivar breaks: a property that it claims there.
    :ivar sequence: the store's steps.
    :ivar disturb: as `--disturb`; None: the default.
    """

    method: type[FsyncMethod]
    fs: str
    breaks: str
    disturb: str | None = None
    states: int = 60
    sequence: str = "commit"


CASES = (
    Case(wrong_methods.NoSync, "ext4", "intact"),
    Case(wrong_methods.WriteOutIsEnough, "ext4", "durable", "none", 40),
    Case(wrong_methods.SyncAfterRename, "ext4", "intact"),
    Case(wrong_methods.ObjectsForgotten, "ext4", "intact"),
    Case(wrong_methods.DirectoriesForgotten, "ext4", "durable", "none", 40),
    Case(wrong_methods.FirstSyncForgotten, "ext4", "intact"),
    Case(wrong_methods.SecondSyncForgotten, "ext4", "durable", "none", 40),
    Case(wrong_methods.BatchEverywhere, "btrfs", "intact", "none", 40),
    Case(wrong_methods.OneFileForAll, "ext4", "intact"),
    Case(wrong_methods.AppendedInPlace, "ext4", "usable", None, 200, "many-refs"),
)
RIGHT = (
    Case(StrictInAnotherOrder, "ext4", ""),
    Case(StrictInAnotherOrder, "xfs", ""),
    Case(StrictInAnotherOrder, "btrfs", "", "none"),
    Case(StrictInAnotherOrder, "f2fs", "", "none"),
)
ALWAYS = {wrong_methods.BatchEverywhere, wrong_methods.SecondSyncForgotten}


Note = Callable[[str, object], None]


def broken(machine: QemuMachine, directory: Path, case: Case, note: Note) -> set[str]:
    """The properties that a method claims on a filesystem, and that some crash there breaks.

    :param note: keeps how many states break which, for the report (`--junit-xml`).
    """
    found = find_method(f"{wrong_methods.__name__}:{case.method.__name__}")
    options = RunOptions(
        filesystem=parse_filesystem(case.fs),
        out=directory,
        disturbances=parse_disturbances(None if case.disturb is None else [case.disturb], SEED),
        states=case.states,
        seed=SEED,
        jobs=1,
    ).bare(directory)
    (run,) = validate_on_kernels(found, [case.fs], [case.sequence], options, machine)
    assert run.states.explored == case.states
    assert run.inconclusive == 0
    note("broken", {name: each.violations for name, each in run.properties.items()})
    return {each.value for each in found.claims[case.fs]} & broken_by_the_method(run)


def skip_unless_all(request: pytest.FixtureRequest, in_any_case: bool) -> None:
    if not in_any_case and not request.config.getoption("all_wrong_methods"):
        pytest.skip("run with --all-wrong-methods")


def test_there_is_a_case_for_each_wrong_method() -> None:
    assert [case.method for case in CASES] == list(WRONG)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.method.name)
def test_a_wrong_method_is_caught(
    machine: QemuMachine,
    tmp_path: Path,
    case: Case,
    request: pytest.FixtureRequest,
    record_property: Note,
) -> None:
    skip_unless_all(request, case.method in ALWAYS)

    assert case.breaks in broken(machine, tmp_path, case, record_property)


@pytest.mark.parametrize("case", RIGHT, ids=lambda case: case.fs)
def test_a_right_method_in_an_unusual_order_is_not(
    machine: QemuMachine,
    tmp_path: Path,
    case: Case,
    request: pytest.FixtureRequest,
    record_property: Note,
) -> None:
    skip_unless_all(request, case.fs == "btrfs")

    assert broken(machine, tmp_path, case, record_property) == set()
