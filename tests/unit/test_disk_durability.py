"""The durability rule, case by case. `s3` submits request 3, `c3` completes it, `e3` with EIO."""

import errno
from pathlib import Path

import pytest

from crashsim.disk.durability import durable_positions, pending
from crashsim.disk.log import NEVER, Log, LogWriter
from crashsim.disk.profile import DEFAULT_PROFILE, DeviceProfile, parse_profile
from crashsim.disk.request import Operation, Request

W = Request(Operation.WRITE, 0, 512, False, bytes(512))
FUA = Request(Operation.WRITE, 512, 512, True, bytes(512))
F = Request(Operation.FLUSH)
TRIM = Request(Operation.TRIM, 0, 512)
ZEROES = Request(Operation.WRITE_ZEROES, 0, 512, True)


def recorded(directory: Path, requests: list[Request], events: str) -> Log:
    with LogWriter(directory, 1 << 20) as writer:
        for event in events.split():
            number = int(event[1:])
            if event[0] == "s":
                assert writer.submit(requests[number]) == number
            else:
                writer.complete(number, errno.EIO if event[0] == "e" else 0)
    return Log.open(directory)


@pytest.mark.parametrize(
    ("requests", "events", "expected"),
    [
        pytest.param([W], "s0 c0", [NEVER], id="no flush"),
        pytest.param([W, F], "s0 c0 s1 c1", [4, NEVER], id="flushed"),
        pytest.param([W, F], "s0 c0 s1", [NEVER, NEVER], id="the flush did not end"),
        pytest.param([W, F], "s0 s1 c0 c1", [NEVER, NEVER], id="in flight at the flush"),
        pytest.param([W, F], "s0 s1 c1 c0", [NEVER, NEVER], id="ended after the flush"),
        pytest.param([F, W], "s0 s1 c1 c0", [NEVER, NEVER], id="came after the flush"),
        pytest.param([W, F, F], "s0 s1 c0 c1 s2 c2", [6, NEVER, NEVER], id="by the next flush"),
        pytest.param(
            [W, F, F], "s0 c0 s1 s2 c2 c1", [5, NEVER, NEVER], id="a later flush ended first"
        ),
        pytest.param(
            [W, F, W, F],
            "s0 c0 s1 s2 c2 s3 c3 c1",
            [7, NEVER, 7, NEVER],
            id="a later flush covers what an earlier one does",
        ),
        pytest.param(
            [W, F, F], "s0 c0 s1 e1 s2 c2", [6, NEVER, NEVER], id="the first flush failed"
        ),
        pytest.param([W, F], "s0 e0 s1 c1", [NEVER, NEVER], id="the write failed"),
        pytest.param([FUA], "s0 c0", [2], id="FUA"),
        pytest.param([FUA], "s0", [NEVER], id="FUA in flight"),
        pytest.param([FUA, F], "s0 e0 s1 c1", [NEVER, NEVER], id="FUA failed"),
        pytest.param([W, FUA], "s0 c0 s1 c1", [NEVER, 4], id="FUA covers itself only"),
        pytest.param([TRIM, ZEROES, F], "s0 c0 s1 c1 s2 c2", [6, 4, NEVER], id="without data"),
    ],
)
def test_when_a_request_is_durable(
    tmp_path: Path, requests: list[Request], events: str, expected: list[int]
) -> None:
    with recorded(tmp_path, requests, events) as log:
        assert durable_positions(log).tolist() == expected


def test_without_a_volatile_cache_the_end_of_a_write_is_enough(tmp_path: Path) -> None:
    with recorded(tmp_path, [W, W, W], "s0 c0 s1 e1 s2") as log:
        assert durable_positions(log, parse_profile("nvme-plp")).tolist() == [2, NEVER, NEVER]


@pytest.mark.parametrize("profile", [DEFAULT_PROFILE, parse_profile("nvme-plp")])
def test_what_may_be_lost_at_each_cut(tmp_path: Path, profile: DeviceProfile) -> None:
    with recorded(tmp_path, [W, F, TRIM], "s0 c0 s1 s2 c1 c2") as log:
        lost = [pending(log, cut, durable_positions(log, profile)).tolist() for cut in range(7)]
        if profile.volatile_cache:
            assert lost == [[], [0], [0], [0], [0, 2], [2], [2]]
        else:
            assert lost == [[], [0], [], [], [2], [2], []]


def test_an_empty_log_has_nothing_to_lose(tmp_path: Path) -> None:
    with recorded(tmp_path, [], "") as log:
        assert durable_positions(log).tolist() == []
        assert pending(log, 0).tolist() == []
