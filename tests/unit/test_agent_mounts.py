"""Mount options as mount(2) takes them, and names of devices."""

import pytest

from crashsim.machines.agent.mounts import device_path, mount, parse_options
from crashsim.machines.agent.wire import Refused

# linux/mount.h
READ_ONLY, SYNCHRONOUS, NO_ACCESS_TIME = 1, 16, 1024


@pytest.mark.parametrize(
    ("options", "flags", "data"),
    [
        ("", 0, ""),
        ("defaults", 0, ""),
        ("ro,noatime", READ_ONLY | NO_ACCESS_TIME, ""),
        ("noatime,data=writeback,commit=1", NO_ACCESS_TIME, "data=writeback,commit=1"),
        ("data=ordered,sync,barrier=0", SYNCHRONOUS, "data=ordered,barrier=0"),
        ("ro,rw", 0, ""),
        ("rw,ro", READ_ONLY, ""),
        (",,ro,,", READ_ONLY, ""),
        ("rox,norecovery", 0, "rox,norecovery"),
    ],
)
def test_options_become_flags_and_data(options: str, flags: int, data: str) -> None:
    assert parse_options(options) == (flags, data)


def test_slots_are_the_disks_after_the_root_disk() -> None:
    assert [device_path(slot) for slot in (0, 1)] == ["/dev/vdb", "/dev/vdc"]


@pytest.mark.parametrize("slot", [-1, 16, 1000])
def test_other_slots_are_refused(slot: int) -> None:
    with pytest.raises(Refused):
        device_path(slot)


def test_a_mount_that_fails_raises_its_errno(tmp_path: object) -> None:
    with pytest.raises(OSError, match=str(tmp_path)):
        mount("/no/such/device", str(tmp_path), "no-such-filesystem", "ro")
