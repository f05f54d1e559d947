"""A guest's crash disks: one, or two that are windows on one (`crashsim.disk.windows`)."""

from collections.abc import Sequence

from crashsim.disk.latency import NO_LATENCY, Latency
from crashsim.disk.server import Disk
from crashsim.disk.windows import windows
from crashsim.machines.failures import AgentError
from crashsim.machines.filesystems import Filesystem
from crashsim.machines.protocol import Guest, Mount


def attach_disks(
    guest: Guest, whole: Disk, disks: int, slot: int, latency: Latency = NO_LATENCY
) -> None:
    """Back so many of the guest's disks, from `slot` on, by equal parts of `whole`."""
    for number, window in enumerate(windows(whole, disks)):
        guest.attach(slot + number, window, latency)


def make_filesystem(guest: Guest, filesystem: Filesystem, slot: int) -> None:
    """Run mkfs on each of its disks. Raises AgentError with the output."""
    if filesystem.second is not None and filesystem.second.mkfs_argv:
        guest.format(slot + 1, filesystem.fstype, filesystem.second.mkfs_argv)
    guest.format(slot, filesystem.fstype, filesystem.mkfs_argv)


def mount_fresh(guest: Guest, mount: Mount) -> None:
    """Mount what was just made, with the directories that the further mounts need.

    Raises MountFailed, AgentError.
    """
    guest.mount(mount)
    for each in mount.then:
        _run(guest, ["mkdir", "-p", each.at])
        guest.mount(each)
        # Made by mke2fs(8); it would be in the way of what is to be there.
        _run(guest, ["rm", "-rf", f"{each.at}/lost+found"])


def _run(guest: Guest, argv: Sequence[str]) -> None:
    result = guest.run(argv)
    if result.returncode != 0:
        told = result.stderr.decode("utf-8", "replace").strip()
        raise AgentError(f"in the guest, {' '.join(argv)} failed: {told}")
