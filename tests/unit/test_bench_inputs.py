"""What benchmarks refuse before they start a guest, and the hardware that they compare with."""

from itertools import pairwise
from pathlib import Path

import pytest

from crashsim.campaigns.bench_finding import bench_finding
from crashsim.campaigns.bench_memory import bench_memory
from crashsim.campaigns.options import no_progress
from crashsim.errors import UsageError
from crashsim.machines.filesystems import parse_filesystem
from crashsim.machines.hardware import Hardware, Sockets

SOCKETS = Sockets(3, 4, 5, (6, 7))


def values(hardware: Hardware, option: str) -> list[str]:
    return [value for word, value in pairwise(hardware.arguments(SOCKETS)) if word == option]


def hardware(raw_disks: dict[int, Path]) -> Hardware:
    here = Path("x")
    return Hardware("tcg", here, here, "", here, False, raw_disks)


def test_a_raw_disk_differs_in_who_answers_for_it_alone() -> None:
    ours, raw = hardware({}), hardware({0: Path("/tmp/a,b")})
    assert values(ours, "-device") == values(raw, "-device")
    changed = [
        (old, new)
        for old, new in zip(values(ours, "-blockdev"), values(raw, "-blockdev"), strict=True)
        if old != new
    ]
    [(old, new)] = changed
    assert old.startswith("driver=nbd,server.type=fd,server.str=6,")
    assert new.startswith("driver=file,")
    assert "filename=/tmp/a,,b," in new
    for option in ("node-name=disk0", "discard=unmap"):
        assert option in old.split(",")
        assert option in new.split(",")


def test_more_than_fits_the_disk_is_refused() -> None:
    with pytest.raises(UsageError, match="fewer --gibibytes"):
        bench_memory(15.5, 1, None, no_progress)


def test_the_example_has_to_be_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="examples/config-writer"):
        bench_finding(1, tmp_path, parse_filesystem("ext4"), no_progress)
