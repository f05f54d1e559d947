"""The trees at the beginning and the end of a recording, with all contents, from the log itself.

At both ends everything is durable, so the images there are what the program made and nothing else.
"""

from crashsim.disk.crash_disk import CrashStateDisk
from crashsim.disk.image import ImageIndex
from crashsim.disk.state import CrashState
from crashsim.errors import InfrastructureError
from crashsim.explain.files import PREPARED, Snapshot
from crashsim.explain.survey import start_of
from crashsim.faults.disturbances import EXCLUDE
from crashsim.machines.protocol import Guest, Mount


class BoundaryUnreadable(InfrastructureError):
    """The filesystem does not mount where everything is durable."""


def boundary_snapshots(
    guest: Guest, index: ImageIndex, mount: Mount, last_step: str
) -> list[Snapshot]:
    """Recover the trees at the START mark and at the log's end.

    For recordings of which no tree was taken after each step. The guest's disk `mount.slot` must
    not be mounted; it shows the log's disk afterwards.

    :param last_step: the step that the final tree is of.

    Raises BoundaryUnreadable, and what the guest raises.
    """
    disk = CrashStateDisk(index)
    guest.attach(mount.slot, disk)
    found: list[Snapshot] = []
    for step, cut in ((PREPARED, start_of(index.log)), (last_step, index.log.event_count)):
        disk.show(CrashState(cut))
        recovery = guest.recover(mount, exclude=EXCLUDE)
        if recovery.tree is None:
            raise BoundaryUnreadable(
                f"the {mount.fstype} of event {cut}, where everything is durable, does not mount "
                f"({recovery.mount_error}): the recording or its guest is broken"
            )
        found.append(Snapshot(step, recovery.tree))
        guest.unmount(mount.slot)
    return found
