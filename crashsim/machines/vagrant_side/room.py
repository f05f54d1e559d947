"""A guest's room in the VM: its own namespaces, the VM's root below a tmpfs, and the agent in it.

What is done in there is gone with it, but for what is done to the kernel. Its disks are /dev/vdb
and so on, as in every other machine.

    unshare --mount --pid … python3 -m crashsim.machines.vagrant_side.room DESCRIPTOR DEVICE…
"""

import ctypes
import gc
import os
import sys

# All of the agent, now: its files are out of sight once the root has changed.
from crashsim.machines.agent.marks import install_program
from crashsim.machines.agent.service import Service, become_subreaper
from crashsim.machines.agent.wire import Hangup, send

ROOM = "/run/crashsim-room"
MS_REC, MS_PRIVATE, MS_BIND, MS_MOVE = 0x4000, 0x40000, 0x1000, 0x2000
PATH = "/payload/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_library = ctypes.CDLL(None, use_errno=True)


def _mount(source: str, target: str, fstype: str = "", flags: int = 0, options: str = "") -> None:
    arguments = [text.encode() for text in (source, target, fstype)]
    if _library.mount(*arguments, ctypes.c_ulong(flags), options.encode() or None) != 0:
        raise OSError(ctypes.get_errno(), f"mount {source} at {target}")


def command(descriptor: int, devices: list[str]) -> list[str]:
    """How to start it; it inherits the agent's end of the channel as `descriptor`."""
    return [
        *("unshare", "--mount", "--pid", "--fork", "--kill-child=KILL", "--"),
        *(sys.executable, "-S", "-m", "crashsim.machines.vagrant_side.room"),
        *(str(descriptor), *devices),
    ]


def enter(devices: list[str]) -> None:
    """Make the room and go in."""
    _mount("none", "/", flags=MS_REC | MS_PRIVATE)
    os.makedirs(ROOM, exist_ok=True)
    _mount("room", ROOM, "tmpfs", options="mode=0755")
    for name in ("upper", "work", "root"):
        os.mkdir(f"{ROOM}/{name}")
    root = f"{ROOM}/root"
    _mount(
        "overlay",
        root,
        "overlay",
        options=f"lowerdir=/,upperdir={ROOM}/upper,workdir={ROOM}/work",
    )
    for name in ("dev", "sys"):
        _mount(f"/{name}", f"{root}/{name}", flags=MS_BIND | MS_REC)
    _mount("proc", f"{root}/proc", "proc")
    _mount("run", f"{root}/run", "tmpfs", options="mode=0755")
    _mount("tmp", f"{root}/tmp", "tmpfs", options="mode=1777")
    for slot, device in enumerate(devices):
        # A bind mount over the name: the VM's own spare disk may have it, or nothing has.
        node = f"{root}/dev/vd{chr(ord('b') + slot)}"
        if not os.path.exists(node):
            open(node, "x").close()
        _mount(device, node, flags=MS_BIND)
    os.chroot(root)
    os.chdir("/")


def main() -> None:
    """Be a guest until the host hangs up."""
    descriptor, *devices = sys.argv[1:]
    enter(devices)
    os.environ.clear()
    os.environ.update(PATH=PATH, HOME="/root", LANG="C.UTF-8", TERM="linux")
    become_subreaper()
    install_program()
    service = Service(int(descriptor))
    send(int(descriptor), {"hello": 1})
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        service.loop()
    except Hangup:
        return


if __name__ == "__main__":
    main()
