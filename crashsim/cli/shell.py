"""`crashsim shell`: a guest to work in by hand, or to run one command in."""

import sys
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from crashsim.campaigns.repro import machine_for, open_case, state_of
from crashsim.cli.arguments import KernelOption, MachineOption
from crashsim.cli.image import build_progress
from crashsim.cli.output import stderr
from crashsim.disk.crash_disk import CrashStateDisk
from crashsim.disk.recording_disk import MemoryDisk
from crashsim.errors import UsageError
from crashsim.machines.crash_disks import attach_disks, make_filesystem, mount_fresh
from crashsim.machines.filesystems import parse_filesystem
from crashsim.machines.hardware import CRASH_DISK_BYTES
from crashsim.machines.images.recipe import ImageSpec
from crashsim.machines.protocol import Guest
from crashsim.machines.select import choose_machine
from crashsim.machines.terminal import interact, run_command
from crashsim.report.bundle import Bundle

SLOT = 0


def shell(
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- COMMAND...]", help="Run this, print its output, and end."),
    ] = None,
    fs: Annotated[
        str | None,
        typer.Option("--fs", metavar="FS", help="Make and mount this filesystem at /mnt/0."),
    ] = None,
    payload: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Programs for the guest, at /payload.")
    ] = None,
    kernel: KernelOption = None,
    timeout_seconds: Annotated[
        float, typer.Option("--timeout", min=1.0, help="Seconds that COMMAND may take.")
    ] = 600.0,
    machine: MachineOption = "auto",
) -> int:
    """Open a shell in a fresh guest, on its serial console; Ctrl-] leaves it.

    The guest is thrown away afterwards. With COMMAND, its exit status becomes ours.

    Examples:

      crashsim shell --fs ext4

      crashsim shell --fs btrfs -- sh -c 'cd /mnt/0 && git init -q . && git status'
    """
    spec = ImageSpec(kernel=kernel, payload=payload)
    filesystem = parse_filesystem(fs) if fs is not None else None
    with build_progress() as report:
        chosen = choose_machine(machine, spec, progress=report)
    with chosen.start() as guest, ExitStack() as disks:
        cwd = "/root"
        if filesystem is not None:
            disk = MemoryDisk(CRASH_DISK_BYTES * filesystem.disks)
            disks.callback(disk.close)
            attach_disks(guest, disk, filesystem.disks, SLOT)
            make_filesystem(guest, filesystem, SLOT)
            mount_fresh(guest, filesystem.mount(SLOT))
            cwd = f"/mnt/{SLOT}"
        if command:
            return run_command(guest, command, cwd, timeout_seconds, _print)
        return _interact(guest, cwd)


def shell_into_state(bundle: Bundle, restore: Iterable[int], machine: str) -> int:
    """Mount the crash state of a bundle in a guest and open a shell in it.

    Where it does not mount the shell is opened all the same, with the disk at /dev/vdb.
    """
    state = state_of(bundle.finding, restore)
    with open_case(bundle.recording, bundle.oracle) as recorded:
        recorded.images.check_legal(state)
        with machine_for(machine, bundle.payload).start() as guest:
            disk = CrashStateDisk(recorded.images)
            disk.show(state)
            attach_disks(guest, disk, recorded.log.disks, SLOT)
            recovery = guest.recover(recorded.filesystem.mount(SLOT), collect=())
            if recovery.tree is None:
                stderr.print(
                    f"the crash state does not mount: {recovery.mount_error}; see /dev/vdb"
                )
                return _interact(guest, "/root")
            return _interact(guest, f"/mnt/{SLOT}")


def _interact(guest: Guest, cwd: str) -> int:
    if not sys.stdin.isatty():
        raise UsageError("a shell needs a terminal; give a command: crashsim shell -- COMMAND")
    stderr.print("the guest's console follows; Ctrl-] leaves it", highlight=False)
    status = interact(guest, cwd)
    stderr.print("\nthe guest is gone", highlight=False)
    return status


def _print(output: bytes) -> None:
    sys.stdout.buffer.write(output)
    if output and not output.endswith(b"\n"):
        sys.stdout.buffer.write(b"\n")
    sys.stdout.buffer.flush()
