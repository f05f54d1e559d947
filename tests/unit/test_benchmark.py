"""What benchmarks are summed up by."""

import subprocess
import sys
import time

import pytest

from crashsim.campaigns.benchmark import (
    Meter,
    alternate,
    cpu_seconds,
    figure,
    forget_peak_resident,
    peak_resident_mb,
)
from crashsim.campaigns.options import no_progress

SPIN = "import time\nwhile time.process_time() < 0.2: pass\nprint(flush=True)\ninput()"


def test_a_figure_is_the_median_with_its_bounds() -> None:
    summed = figure("a state", "s", [3.0, 1.0, 20.0])
    assert (summed.median, summed.least, summed.greatest) == (3.0, 1.0, 20.0)


def test_sides_take_turns_and_none_is_always_the_first() -> None:
    order: list[str] = []
    alternate([lambda: order.append("a"), lambda: order.append("b")], 3, no_progress)
    assert "".join(order) == "abbaab"


def test_the_processor_time_of_children_that_run_counts() -> None:
    before = cpu_seconds()
    with subprocess.Popen(
        [sys.executable, "-c", SPIN], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert cpu_seconds() - before >= 0.19
        child.communicate(b"\n")


def test_a_meter_tells_waiting_from_computing() -> None:
    meter = Meter()
    with meter.measure():
        end = time.process_time() + 0.05
        while time.process_time() < end:
            pass
    assert meter.own_seconds[0] >= 0.05
    assert meter.seconds[0] >= 0.05
    assert meter.cpu_seconds[0] >= meter.own_seconds[0]


def test_what_failed_is_not_measured() -> None:
    meter = Meter()
    with pytest.raises(OSError, match="no"), meter.measure():
        raise OSError("no")
    assert not meter.seconds
    assert not meter.cpu_seconds


def test_the_peak_of_resident_memory_can_be_forgotten() -> None:
    forget_peak_resident()
    before = peak_resident_mb()
    block = bytearray(64 << 20)
    block[::4096] = bytes(len(block) // 4096)
    grown = peak_resident_mb()
    del block
    assert grown - before >= 64
    forget_peak_resident()
    assert peak_resident_mb() < grown - 32
