"""The store when its system calls fail: it says so, loses nothing, and believes no second fsync.

Here a deterministic part: every sync with EIO, every other call and error now and then. The whole
product: `crashsim validate --method NAME --errors`.
"""

import errno
from collections.abc import Iterator, Mapping, Sequence

import pytest

from crashsim.campaigns.failing_calls import Prepared, Trial, Wrong, faults
from crashsim.campaigns.failing_operations import CASES, Case, prepare_case
from crashsim.campaigns.methods import find_method
from crashsim.campaigns.simulated_judge import Trees
from crashsim.faults.failing_machine import CallFault, FailingMachine
from crashsim.model.simulated import Simulated
from crashsim.workloads.simulated import PROGRAM, Call, program
from impl.durability.method import FsyncMethod
from impl.durability.port import WRITE_OUT

CALL = program(PROGRAM)
TREES = Trees()
METHODS = ("fsync", "batch", "barrier", "index-flush", "paired-syncfs", "strict")
LONG = ("gc", "repack", "multi-pack-index")
"""Hundreds of calls each, most of them reads."""
SYNCS = ("fsync", "sync_file_range", "sync_filesystem")
EVERY = 67
CASE = {case.name: case for case in CASES}


def some_faults(prepared: Prepared) -> Iterator[CallFault]:
    """EIO of every sync, and of everything else each `EVERY`th: another error of another call."""
    every = EVERY * 5 if prepared.operation.name in LONG else EVERY
    for number, fault in enumerate(faults(prepared, lasting=True)):
        is_sync = prepared.calls[fault.number].call in SYNCS and not fault.lasting
        if (is_sync and fault.error == errno.EIO) or number % every == 0:
            yield fault


def wrongs(case: Case, method_name: str, call: Call = CALL) -> list[Wrong]:
    method = find_method(method_name)
    prepared = prepare_case(case, CALL, method, TREES)
    trial = Trial(call, method, prepared, TREES)
    return [wrong for fault in some_faults(prepared) for wrong in trial.wrongs(fault)]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", CASE)
def test_a_failing_call_is_told_and_loses_nothing(name: str, method: str) -> None:
    assert [str(wrong) for wrong in wrongs(CASE[name], method)] == []


@pytest.mark.parametrize("method", ["batch", "paired-syncfs"])
def test_nothing_promised_before_is_lost_by_a_crash_after_a_failed_sync(method: str) -> None:
    found = find_method(method)
    prepared = prepare_case(CASE["add"], CALL, found, TREES)
    trial = Trial(CALL, found, prepared, TREES)
    syncs = [n for n, made in enumerate(prepared.calls) if made.call in SYNCS]

    for number in (syncs[0], syncs[-1]):
        assert trial.wrongs(CallFault(number, errno.EIO), crashes=4) == []


# A check that finds nothing must be able to find something: four stores that are wrong.


def test_a_second_fsync_that_is_believed_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def flush(self: FsyncMethod, descriptor: int) -> None:
        try:
            self.port.fsync(descriptor)
        except OSError:
            self.port.fsync(descriptor)

    monkeypatch.setattr(FsyncMethod, "flush", flush)

    found = wrongs(CASE["commit"], "fsync")

    assert any("a reboot: intact" in wrong.what for wrong in found)
    assert {wrong.made.call for wrong in found} == {"fsync"}


def test_an_fsync_after_a_failed_writeout_is_no_better(monkeypatch: pytest.MonkeyPatch) -> None:
    def write_out(self: FsyncMethod, descriptor: int) -> None:
        try:
            self.port.sync_file_range(descriptor, 0, 0, WRITE_OUT)
        except OSError:
            self.flush(descriptor)

    monkeypatch.setattr(FsyncMethod, "write_out", write_out)

    assert {wrong.made.call for wrong in wrongs(CASE["add"], "batch")} == {"sync_file_range"}


def _acknowledging(
    machine: Simulated,
    directory: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    given: bytes,
) -> tuple[int, bytes, str]:
    _, output, errors = CALL(machine, directory, arguments, environment, given)
    return 0, output, errors


def test_a_false_acknowledgement_is_found_out() -> None:
    found = wrongs(CASE["tag"], "fsync", _acknowledging)

    assert any("exit code 0, durable" in wrong.what for wrong in found)


def _mute(
    machine: Simulated,
    directory: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    given: bytes,
) -> tuple[int, bytes, str]:
    code, output, _ = CALL(machine, directory, arguments, environment, given)
    return code, output, "" if code == 0 else "fatal: something went wrong\n"


def test_a_message_that_names_neither_error_nor_path_is_found_out() -> None:
    assert all("unclear" in wrong.what for wrong in wrongs(CASE["tag"], "fsync", _mute))
    assert wrongs(CASE["tag"], "fsync", _mute)


def _littering(
    machine: Simulated,
    directory: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    given: bytes,
) -> tuple[int, bytes, str]:
    ended = CALL(machine, directory, arguments, environment, given)
    if ended[0] != 0 and isinstance(machine, FailingMachine):
        machine.close(machine.open(f"{directory}/.git/index.lock", 0o101))
    return ended


def test_a_lock_that_is_left_behind_is_found_out() -> None:
    found = wrongs(CASE["tag"], "fsync", _littering)

    assert any(wrong.what == "left behind: repo/.git/index.lock" for wrong in found)
