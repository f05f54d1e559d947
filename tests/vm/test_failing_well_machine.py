"""What people are told when no guest can be had, and what is left behind then: nothing."""

import os
import shutil
from pathlib import Path

import pytest

from crashsim.disk.request import Operation, Request
from crashsim.disk.scratch import ScratchFailed
from crashsim.errors import InfrastructureError, UsageError
from crashsim.machines import accelerator
from crashsim.machines.accelerator import try_accelerator
from crashsim.machines.failures import Cause, GuestDied, MachineUnusable
from crashsim.machines.filesystems import FILESYSTEMS
from crashsim.machines.hardware import CRASH_DISK_BYTES
from crashsim.machines.health import examine, runs_are_possible
from crashsim.machines.qemu import QemuMachine
from crashsim.machines.qemu_guest import QemuGuest
from crashsim.machines.select import choose_machine
from crashsim.machines.snapshot import Snapshot
from tests.support.sparse_disk import SparseDisk

pytestmark = pytest.mark.vm


def path_with(directory: Path, *programs: str) -> str:
    """A PATH on which only these programs are."""
    for program in programs:
        found = shutil.which(program)
        assert found is not None
        (directory / program).symlink_to(found)
    return str(directory)


def test_an_unknown_machine_is_the_callers_mistake() -> None:
    with pytest.raises(UsageError, match=r"'vax'.*qemu"):
        choose_machine("vax")


def test_without_qemu_the_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", path_with(tmp_path, "setpriv"))

    with pytest.raises(MachineUnusable, match="qemu-system-x86"):
        QemuMachine()
    checks = examine()
    assert not runs_are_possible(checks)
    assert [check.name for check in checks if check.needed and not check.ok] == ["QEMU"]


def test_without_setpriv_the_package_is_named(
    machine: QemuMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.snapshot()
    monkeypatch.setenv("PATH", path_with(tmp_path, "qemu-system-x86_64"))

    with pytest.raises(MachineUnusable, match="util-linux"):
        machine.start()


def test_a_host_that_can_run_guests_is_told_so(machine: QemuMachine) -> None:
    checks = examine()

    assert runs_are_possible(checks)
    chosen = next(check for check in checks if check.name == "accelerator")
    assert chosen.detail.startswith(machine.info.accel)
    assert machine.info.reason in chosen.detail


def test_a_cache_that_cannot_be_written_names_the_variable_that_moves_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CRASHSIM_CACHE_DIR", "/dev/null/cache")

    with pytest.raises(InfrastructureError, match="CRASHSIM_CACHE_DIR"):
        QemuMachine()


def own_cache(
    machine: QemuMachine, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[QemuMachine, Snapshot]:
    """The same machine with a cache that a test may damage."""
    snapshot = machine.snapshot()
    image = snapshot.directory.parent.name
    source = snapshot.directory.parents[2]
    (directory / "snapshots" / image).mkdir(parents=True)
    copy = directory / "snapshots" / image / snapshot.directory.name
    shutil.copytree(snapshot.directory, copy)
    (directory / "images").symlink_to(source / "images")
    if (source / "accelerator.json").exists():
        shutil.copy(source / "accelerator.json", directory)
    monkeypatch.setenv("CRASHSIM_CACHE_DIR", str(directory))
    return QemuMachine(), Snapshot(copy)


@pytest.mark.parametrize("damage", ["devices cut", "devices garbled", "memory cut", "memory gone"])
def test_a_snapshot_that_does_not_load_is_made_anew(
    machine: QemuMachine, damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, snapshot = own_cache(machine, tmp_path, monkeypatch)
    made = []

    def make(destination: Snapshot) -> None:
        made.append(destination)
        shutil.copy(good.memory, destination.memory)
        shutil.copy(good.devices, destination.devices)

    good = machine.snapshot()
    monkeypatch.setattr(own, "_boot_and_save", make)
    if damage == "devices cut":
        os.truncate(snapshot.devices, 1000)
    elif damage == "devices garbled":
        content = bytearray(snapshot.devices.read_bytes())
        content[20:40] = b"\xff" * 20
        snapshot.devices.write_bytes(content)
    elif damage == "memory cut":
        os.truncate(snapshot.memory, 1 << 20)
    else:
        snapshot.memory.unlink()

    with own.start() as guest:
        assert guest.run(["true"]).returncode == 0
    assert len(made) == 1


def test_a_guest_that_does_not_boot_tells_why_and_leaves_no_half_snapshot(
    machine: QemuMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, snapshot = own_cache(machine, tmp_path, monkeypatch)
    shutil.rmtree(snapshot.directory)
    monkeypatch.setattr(own, "_initramfs", b"no archive")

    with pytest.raises(GuestDied, match="VFS: Unable to mount root fs") as died:
        own.start()
    assert died.value.cause is Cause.PANIC
    assert [path.name for path in snapshot.directory.parent.iterdir()] == [".lock"]


def test_an_accelerator_is_judged_by_booting_a_kernel(machine: QemuMachine) -> None:
    kernel = machine.kernel

    assert try_accelerator("tcg", kernel) == ""
    assert "no-such-accelerator" in try_accelerator("no-such-accelerator", kernel)


def test_a_processor_that_never_gets_through_the_kernel_is_no_accelerator(
    machine: QemuMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An endless loop where the kernel begins: what a hypervisor does that fails silently."""
    kernel = bytearray(machine.kernel.read_bytes())
    kernel[0x200:0x202] = b"\xeb\xfe"  # the entry of the real-mode code: boot.rst of the kernel
    (tmp_path / "kernel").write_bytes(kernel)
    monkeypatch.setattr(accelerator, "TRIAL_SECONDS", 3.0)

    assert "did not boot" in try_accelerator("tcg", tmp_path / "kernel")


class FullDisk(SparseDisk):
    """The host has no room left for what the guest writes."""

    def perform(self, request: Request) -> bytes:
        if request.operation is Operation.WRITE:
            raise ScratchFailed("no space left for the working copy")
        return super().perform(request)


def test_a_disk_that_fails_on_the_host_is_never_taken_for_the_guests_trouble(
    machine: QemuMachine,
) -> None:
    filesystem = FILESYSTEMS["ext4"]
    with machine.start() as guest:
        guest.attach(0, FullDisk(CRASH_DISK_BYTES))
        with pytest.raises(GuestDied, match="no space left for the working copy") as died:
            guest.format(0, filesystem.fstype, filesystem.mkfs_argv)
        assert died.value.cause is Cause.DISK
        assert isinstance(died.value.__cause__, ScratchFailed)
        with pytest.raises(GuestDied):
            guest.run(["true"])


def test_a_guest_that_is_refused_by_qemu_tells_qemus_words(machine: QemuMachine) -> None:
    with pytest.raises(GuestDied, match="no-such-device"):
        QemuGuest(machine.info, lambda sockets: ["-device", "no-such-device"]).hello(30)
