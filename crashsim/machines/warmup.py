"""What a guest does once before its snapshot, so that no later guest pays for it.

First uses are dear in an emulated guest: modules, programs and libraries come from the root image,
code is translated, caches fill. All of that is in the snapshot's memory afterwards.
"""

import contextlib

from crashsim.machines.failures import AgentError
from crashsim.machines.filesystems import FILESYSTEMS, Filesystem
from crashsim.machines.guest import AgentGuest

SLOT = 0
PROGRAMS = (
    ("git", "--version"),
    ("git", "init", "-q", "/tmp/warm-up"),
    ("git", "-C", "/tmp/warm-up", "fsck"),
    ("sh", "-c", "true"),
    ("python3", "-c", "pass"),
    ("rm", "-r", "/tmp/warm-up"),
)


def warm_up(guest: AgentGuest) -> None:
    """Use every filesystem, and the programs that most workloads use; it needs a disk to write to.

    An image that lacks a program or a filesystem is fine: whoever needs it will hear of it.
    """
    for argv in PROGRAMS:
        try:
            guest.run(argv, timeout_seconds=120)
        except AgentError as error:
            if error.errno_name != "ENOENT":
                raise
    for filesystem in FILESYSTEMS.values():
        with contextlib.suppress(AgentError):
            _use(guest, filesystem)


def _use(guest: AgentGuest, filesystem: Filesystem) -> None:
    mount = filesystem.mount(SLOT)
    guest.format(SLOT, filesystem.fstype, filesystem.mkfs_argv)
    guest.mount(mount)
    guest.write_file(f"/mnt/{SLOT}/file", b"warm")
    guest.run(["sync"])
    guest.unmount(SLOT)
    guest.recover(mount)
    guest.unmount(SLOT)
