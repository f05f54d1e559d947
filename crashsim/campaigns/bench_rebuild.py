"""How crash states are usually looked at: write the whole image, mount it, ask fsck.

This is what crashsim is measured against, so nothing here is slower than it has to be: one command
in the guest for all three programs, and the image's file takes up room for what was written only.
"""

from contextlib import closing
from dataclasses import dataclass, replace

from crashsim.disk.log import Log
from crashsim.disk.recording_disk import MemoryDisk
from crashsim.disk.request import Request
from crashsim.disk.state import CrashState
from crashsim.errors import InfrastructureError
from crashsim.machines.protocol import CommandResult, Guest, Mount

_MOUNT_FAILED, _UNMOUNT_FAILED = 64, 65
"""git fsck's own exit status is a sum of smaller bits (git-fsck(1)), or 128 and more."""

_SCRIPT = f"""
mkdir -p "$4"
mount -t "$1" -o "$2" "$3" "$4" || exit {_MOUNT_FAILED}
git -C "$4/$5" fsck --full
status=$?
umount "$4" || exit {_UNMOUNT_FAILED}
exit $status
"""


class RebuiltDiskStuck(InfrastructureError):
    """A guest could not let go of a rebuilt disk, so nothing can be measured in it any more."""


@dataclass(frozen=True, slots=True)
class UsualWay:
    """Decides crash states of one log by rebuilding each.

    :ivar guest: any; its disk `mount.slot` is free.
    :ivar repository: where git's repository is, relative to the filesystem's root.
    """

    guest: Guest
    log: Log
    atomic_unit_bytes: int
    mount: Mount
    repository: str

    def decide(self, state: CrashState) -> bool:
        """Whether the filesystem mounted and git fsck found no fault.

        Raises RebuiltDiskStuck, and GuestDied.
        """
        with closing(rebuild(self.log, state, self.atomic_unit_bytes)) as disk:
            self.guest.attach(self.mount.slot, disk)
            result = self._check()
        if result.timed_out or result.returncode == _UNMOUNT_FAILED:
            told = result.stderr.decode("utf-8", "replace").strip()
            raise RebuiltDiskStuck(f"a rebuilt disk cannot be unmounted: {told}")
        return result.returncode == 0

    def _check(self) -> CommandResult:
        slot = self.mount.slot
        device, root = f"/dev/vd{chr(ord('b') + slot)}", f"/mnt/{slot}"
        arguments = (self.mount.fstype, self.mount.options, device, root, self.repository)
        return self.guest.run(["sh", "-uc", _SCRIPT, "sh", *arguments])


def rebuild(log: Log, state: CrashState, atomic_unit_bytes: int) -> MemoryDisk:
    """A fresh sparse file with the whole image of a crash state, by doing all that it keeps.

    :param atomic_unit_bytes: what the state's torn writes count their units in.

    Costs the whole log up to the cut, in time and in room. The caller closes it.
    """
    disk = MemoryDisk(log.size_bytes)
    try:
        torn = {each.write: each.kept_units for each in state.torn}
        for number in range(log.submitted_before(state.cut)):
            if number in torn:
                for unit in torn[number]:
                    disk.perform(_unit(log.request(number), unit, atomic_unit_bytes))
            elif number not in state.dropped:
                disk.perform(log.request(number))
    except BaseException:
        disk.close()
        raise
    return disk


def _unit(request: Request, unit: int, unit_bytes: int) -> Request:
    """The part of a write that is its atomic unit number `unit`."""
    start = unit * unit_bytes
    length = min(unit_bytes, request.length_bytes - start)
    return replace(
        request,
        offset_bytes=request.offset_bytes + start,
        length_bytes=length,
        data=request.data[start : start + unit_bytes],
    )
