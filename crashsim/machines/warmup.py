"""What a guest does once before its snapshot, so that no later guest pays for it.

First uses are dear in an emulated guest: modules, programs and libraries come from the root image,
code is translated, caches fill. All of that is in the snapshot's memory afterwards.
"""

from crashsim.machines.failures import AgentError
from crashsim.machines.filesystems import FILESYSTEMS
from crashsim.machines.guest import AgentGuest

ROUNDS = 2
PROGRAMS = (
    ("git", "--version"),
    ("git", "init", "-q", "/tmp/warm-up"),
    ("git", "-C", "/tmp/warm-up", "fsck"),
    ("sh", "-c", "true"),
    ("python3", "-c", "pass"),
    ("rm", "-r", "/tmp/warm-up"),
)


def warm_up(guest: AgentGuest, slots: int) -> None:
    """Use every filesystem on every disk, and the programs that most workloads use.

    An image that lacks a program or a filesystem is fine: whoever needs it will hear of it.
    """
    for argv in PROGRAMS:
        try:
            guest.run(argv, timeout_seconds=120)
        except AgentError as error:
            if error.errno_name != "ENOENT":
                raise
    for slot in range(slots):
        for name in FILESYSTEMS:
            try:
                _use(guest, slot, name)
            except AgentError:
                continue


def _use(guest: AgentGuest, slot: int, name: str) -> None:
    filesystem = FILESYSTEMS[name]
    mount = filesystem.mount(slot)
    guest.format(slot, filesystem.fstype, filesystem.mkfs_argv)
    for number in range(ROUNDS):
        guest.mount(mount)
        guest.write_file(f"/mnt/{slot}/file{number}", b"warm")
        guest.run(["sync"])
        guest.unmount(slot)
        guest.recover(mount)
        guest.unmount(slot)
