"""`crashsim selftest` passes here, and fails as soon as any one of its detectors is broken."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crashsim.campaigns import selftest
from crashsim.campaigns.selftest_parts import CHECKED_PART, PARTS, Part
from crashsim.campaigns.selftest_result import SelftestResult
from crashsim.disk import image
from crashsim.disk.crash_disk import CrashStateDisk
from crashsim.disk.log import NEVER, Log
from crashsim.disk.profile import DeviceProfile
from crashsim.disk.state import CrashState
from crashsim.explore import exploring, strategies, timeline
from crashsim.explore.cuts import Cuts, meaningful_cuts
from crashsim.machines.filesystems import Filesystem
from crashsim.machines.protocol import CommandResult, Guest, Mount
from crashsim.machines.qemu import QemuMachine
from crashsim.machines.tree import Tree
from crashsim.oracles import command
from crashsim.workloads import session

pytestmark = [pytest.mark.vm, pytest.mark.slow]

SEED = 0
PART = {part.name: part for part in (*PARTS, CHECKED_PART)}
Break = Callable[[pytest.MonkeyPatch], None]


@pytest.fixture(scope="module")
def whole(
    machine: QemuMachine, tmp_path_factory: pytest.TempPathFactory
) -> tuple[SelftestResult, Path]:
    """A selftest with everything in order, and its recordings."""
    directory = tmp_path_factory.mktemp("selftest")
    return selftest.run_selftest(machine, directory, seed=SEED), directory


@pytest.mark.timeout(900)
def test_it_passes(whole: tuple[SelftestResult, Path]) -> None:
    result, _ = whole

    assert result.inconclusive == 0
    assert [each for each in result.programs if not each.passed] == []
    assert [each for each in result.harness if not each.passed] == []
    assert result.passed


def everything_that_completed_is_durable(patch: pytest.MonkeyPatch) -> None:
    def positions(log: Log, profile: DeviceProfile) -> Any:
        completed = log.requests.completed_at
        return np.where(completed == NEVER, NEVER, completed + 1)

    patch.setattr(timeline, "durable_positions", positions)
    patch.setattr(image, "durable_positions", positions)


def nothing_is_ever_durable(patch: pytest.MonkeyPatch) -> None:
    def positions(log: Log, profile: DeviceProfile) -> Any:
        return np.full(len(log.requests), NEVER, np.int64)

    patch.setattr(timeline, "durable_positions", positions)
    patch.setattr(image, "durable_positions", positions)


def no_write_is_dropped_by_any_strategy(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(strategies.CutView, "drop", lambda view, writes: CrashState(view.cut))
    patch.setattr(strategies.CutView, "keep", lambda view, writes: CrashState(view.cut))


def images_hold_what_was_dropped(patch: pytest.MonkeyPatch) -> None:
    resolve = image.ImageIndex._resolve
    patch.setattr(
        image.ImageIndex,
        "_resolve",
        lambda index, state: resolve(index, CrashState(state.cut, frozenset(), state.torn)),
    )


def no_write_is_torn(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(strategies, "torn_states", lambda *_: iter(()))


def no_cut_just_after_a_promise(patch: pytest.MonkeyPatch) -> None:
    def cuts(*arguments: Any) -> Cuts:
        found = meaningful_cuts(*arguments)
        kept = ~found.promised
        return Cuts(found.positions[kept], found.peaks[kept], found.promised[kept])

    patch.setattr(exploring, "meaningful_cuts", cuts)


def the_power_is_cut_at_the_end_only(patch: pytest.MonkeyPatch) -> None:
    def cuts(*arguments: Any) -> Cuts:
        found = meaningful_cuts(*arguments)
        return Cuts(found.positions[-3:], found.peaks[-3:], found.promised[-3:])

    patch.setattr(exploring, "meaningful_cuts", cuts)


def promises_count_before_they_are_made(patch: pytest.MonkeyPatch) -> None:
    count = timeline.Timeline.promise_count
    patch.setattr(
        timeline.Timeline,
        "promise_count",
        lambda line, cut: min(count(line, cut) + 1, len(line.promises)),
    )


def recovery_without_the_journal(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        Filesystem, "mount", lambda filesystem, slot: Mount(slot, filesystem.fstype, "ro,noload")
    )


def no_page_counts_as_read(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CrashStateDisk, "pages_read", lambda disk: np.zeros(0, np.int64))


def the_last_pages_do_not_count_as_read(patch: pytest.MonkeyPatch) -> None:
    pages_read = CrashStateDisk.pages_read
    patch.setattr(
        CrashStateDisk, "pages_read", lambda disk: (pages := pages_read(disk))[: len(pages) // 2]
    )


def trees_of_equal_paths_count_as_equal(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Tree, "identity", property(lambda tree: hash(tuple(tree.nodes))))


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("breaking", "part"),
    [
        (everything_that_completed_is_durable, "overwrites"),
        (nothing_is_ever_durable, "overwrites"),
        (no_write_is_dropped_by_any_strategy, "overwrites"),
        (images_hold_what_was_dropped, "overwrites"),
        (no_write_is_torn, "overwrites"),
        (no_cut_just_after_a_promise, "promises"),
        (the_power_is_cut_at_the_end_only, "disturbed"),
        (promises_count_before_they_are_made, "promises"),
        (recovery_without_the_journal, "promises"),
        (no_page_counts_as_read, "overwrites"),
        (the_last_pages_do_not_count_as_read, "overwrites"),
        (trees_of_equal_paths_count_as_equal, "overwrites"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_a_broken_detector_is_noticed(
    machine: QemuMachine,
    whole: tuple[SelftestResult, Path],
    monkeypatch: pytest.MonkeyPatch,
    breaking: Break,
    part: str,
) -> None:
    _, directory = whole
    breaking(monkeypatch)

    outcome = selftest.explore_part(machine, PART[part], directory, SEED)

    assert not selftest.summary(machine, [outcome], SEED, 0.0).passed


@pytest.mark.timeout(600)
@pytest.mark.parametrize("hidden", [1, 7])
def test_a_check_whose_exit_code_is_misread_is_noticed(
    machine: QemuMachine,
    whole: tuple[SelftestResult, Path],
    monkeypatch: pytest.MonkeyPatch,
    hidden: int,
) -> None:
    _, directory = whole
    exercise = command.CommandOracle.exercise

    class Misread:
        """A guest whose commands end with 0 where they ended with `hidden`."""

        def __init__(self, guest: Guest) -> None:
            self.guest = guest

        def __getattr__(self, name: str) -> Any:
            return getattr(self.guest, name)

        def run(self, *arguments: Any, **options: Any) -> CommandResult:
            result = self.guest.run(*arguments, **options)
            if result.returncode != hidden:
                return result
            return CommandResult(0, result.stdout, result.stderr, result.seconds)

    monkeypatch.setattr(
        command.CommandOracle,
        "exercise",
        lambda oracle, guest, *rest: exercise(oracle, Misread(guest), *rest),
    )

    outcome = selftest.explore_part(machine, CHECKED_PART, directory, SEED)

    assert [each.name for each in outcome.harness if not each.passed]


def promises_do_not_arrive(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(session, "_mark_promise", lambda writer, text: None)


def nothing_is_disturbed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(session, "IN_GUEST", frozenset())


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("breaking", "part"),
    [(promises_do_not_arrive, "overwrites"), (nothing_is_disturbed, "disturbed")],
    ids=["promises_do_not_arrive", "nothing_is_disturbed"],
)
def test_a_broken_recorder_is_noticed(
    machine: QemuMachine,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    breaking: Break,
    part: str,
) -> None:
    breaking(monkeypatch)
    chosen: Part = PART[part]

    selftest.record_part(machine, chosen, tmp_path, SEED)
    outcome = selftest.explore_part(machine, chosen, tmp_path, SEED)

    assert not selftest.summary(machine, [outcome], SEED, 0.0).passed
