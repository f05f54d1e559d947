"""What stores are timed by, and what their times are summed up to."""

import re

import pytest

from crashsim.campaigns.bench_store import FlushCounter, bench_store
from crashsim.campaigns.options import no_progress
from crashsim.campaigns.store_times import (
    AS_BATCH,
    AS_GIT,
    BELOW_DULWICH,
    COMPARED_BY,
    METHODS_COMPARED,
    StoreTimes,
    Taken,
    Where,
    missed,
)
from crashsim.disk.profile import parse_profile
from crashsim.disk.recording_disk import NullDisk
from crashsim.disk.request import Operation, Request
from crashsim.errors import UsageError
from crashsim.machines.filesystems import parse_filesystem
from crashsim.workloads import dulwich_store, store_programs
from crashsim.workloads.git_options import BadGitOption
from crashsim.workloads.store_operations import OPERATIONS, StoreSize, input_files
from crashsim.workloads.store_programs import (
    DulwichNotInstalled,
    dulwich_program,
    git_program,
    impl_program,
)

FAST, SLOW = "tmpfs", "hdd"


def times(**seconds: float) -> StoreTimes:
    """Of one operation everywhere; where a disk is slow, of 10 flushes of 0.1 s."""
    result = StoreTimes({SLOW: 0.1})
    for place, waiting, flushes in ((FAST, 0.0, 0), (SLOW, 1.0, 10)):
        for name, value in seconds.items():
            taken = Taken(value + waiting, value, flushes)
            result.add(Where(place, "add", name), taken)
    for operation in COMPARED_BY:
        for method in METHODS_COMPARED:
            result.add(Where(SLOW, operation, method), Taken(2.0, 1.0, 10))
    return result


def test_a_time_is_the_median_of_its_rounds() -> None:
    where = Where(SLOW, "add", "git")
    measured = StoreTimes({SLOW: 0.5})
    for seconds, cpu, flushes in ((9.0, 1.0, 4), (3.0, 2.0, 4), (4.0, 3.0, 8)):
        measured.add(where, Taken(seconds, cpu, flushes))
    assert measured.seconds(where) == 4.0
    assert measured.cpu_seconds(where) == 2.0
    assert measured.waiting_seconds(where) == 2.0
    assert measured.idle_seconds(where) == 4.0
    by_name = {(each.name, each.unit): each.median for each in measured.figures()}
    assert by_name == {
        ("hdd, add: git", "s"): 4.0,
        ("CPU time: hdd, add: git", "s"): 2.0,
        ("hdd, add: git", "flushes"): 4.0,
    }


def test_every_store_is_held_against_both_and_git_where_flushes_dominate() -> None:
    ratios = {each.name: each for each in times(git=0.5, impl=1.5, dulwich=3.0).ratios(SLOW)}
    assert ratios["tmpfs, add: impl / dulwich"].value == 0.5
    assert ratios["tmpfs, add: impl / dulwich"].bound == BELOW_DULWICH
    assert ratios["tmpfs, add: impl / git"].bound == ""
    assert ratios["hdd, add: impl / git"].bound == AS_GIT
    assert ratios["hdd, add: impl / git"].value == pytest.approx(2.5 / 1.5)
    [by_cpu] = [each for name, each in ratios.items() if name.endswith("67% of git's are flushes")]
    assert by_cpu.value == pytest.approx(2.5 / 1.5)


def test_where_flushes_do_not_dominate_git_is_no_bound() -> None:
    ratios = {each.name: each for each in times(git=1.5, impl=9.0, dulwich=10.0).ratios(SLOW)}
    assert ratios["hdd, add: impl / git"].bound == ""


def test_what_is_above_its_bound_is_told() -> None:
    assert missed([*times(git=0.5, impl=1.5, dulwich=3.0).ratios(SLOW)]) == []
    slow = [*times(git=0.5, impl=3.5, dulwich=3.0).ratios(SLOW)]
    assert {each.bound for each in missed(slow)} == {AS_GIT, BELOW_DULWICH}
    measured = times(git=0.5, impl=1.5, dulwich=3.0)
    for _ in range(2):
        measured.add(Where(SLOW, "commit", METHODS_COMPARED[0]), Taken(2.5, 1.5, 10))
    assert {each.bound for each in missed([*measured.ratios(SLOW)])} == {AS_BATCH}


def test_the_input_has_the_size_that_was_asked_for_and_no_two_contents_alike() -> None:
    files = input_files(StoreSize(files=60, objects=20, references=7), 0)

    def below(directory: str) -> set[str]:
        return {path.removeprefix(directory) for path in files if path.startswith(f"{directory}/")}

    assert len(below("files")) == 60
    assert len(below("objects")) == 18
    changes = below("changes")
    assert len(changes & below("files")) == 6
    assert len(changes - below("files")) == 6
    contents = [content for path, content in files.items() if path != "references"]
    assert len(set(contents)) == len(contents)
    assert len(re.findall(rb"^create refs/heads/many/\d+ HEAD$", files["references"], re.M)) == 7
    assert input_files(StoreSize(60, 20, 7), 1)["files/000/00000"] != files["files/000/00000"]


def test_the_driver_knows_every_operation() -> None:
    assert [*dulwich_store._OPERATIONS] == [each.command.split()[1] for each in OPERATIONS]


def test_programs_sync_everything_and_come_with_what_the_guest_has_not() -> None:
    assert not git_program().files
    assert "store/impl/cli.py" in impl_program().files
    assert "fsyncMethod = paired-syncfs" in impl_program("paired-syncfs").configuration
    assert all("fsync = all" in each.configuration for each in (git_program(), impl_program()))
    dulwich = dulwich_program()
    assert "dulwich/dulwich/repo.py" in dulwich.files
    assert all(path.endswith(".py") and "/tests/" not in path for path in dulwich.files)
    assert len({each.home for each in (git_program(), impl_program(), dulwich)}) == 3
    with pytest.raises(BadGitOption):
        git_program("paired-syncfs")


def test_without_dulwich_one_line_tells_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_programs, "_DULWICH", "no_such_module_as_this")
    with pytest.raises(DulwichNotInstalled, match="pip install dulwich"):
        dulwich_program()
    assert issubclass(DulwichNotInstalled, UsageError)


def test_a_device_without_latency_is_refused_before_a_guest_starts() -> None:
    ext4 = parse_filesystem("ext4")
    with pytest.raises(UsageError, match="nvme-plp has no flush latency"):
        bench_store(StoreSize(), 1, ext4, parse_profile("nvme-plp"), None, no_progress)


def test_flushes_are_counted_and_passed_on() -> None:
    counter = FlushCounter(NullDisk(1 << 20))
    for request in (
        Request(Operation.FLUSH),
        Request(Operation.READ, 0, 512),
        Request(Operation.FLUSH),
    ):
        ticket = counter.arrived(request)
        assert len(counter.perform(request)) == request.length_bytes
        counter.replied(ticket, 0)
    assert counter.flushes == 2
