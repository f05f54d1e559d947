"""QEMU as a Machine: boots once, and starts every later guest from that boot's snapshot."""

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import xxhash

from crashsim.disk.recording_disk import MemoryDisk, NullDisk
from crashsim.machines.accelerator import choose_accelerator
from crashsim.machines.failures import Cause, GuestDied, MachineUnusable
from crashsim.machines.hardware import (
    CRASH_DISK_BYTES,
    CRASH_DISKS,
    MEMORY_MIB,
    Hardware,
    Sockets,
)
from crashsim.machines.images.build import Progress, find_or_build_image
from crashsim.machines.images.initramfs import compose_initramfs
from crashsim.machines.images.recipe import ImageSpec
from crashsim.machines.protocol import MachineInfo
from crashsim.machines.qemu_guest import QemuGuest
from crashsim.machines.qemu_process import QemuProcess, RunningQemu, qemu_version
from crashsim.machines.snapshot import Snapshot, discard, find_snapshot, making, snapshot_key
from crashsim.machines.warmup import SLOT as WARM_UP_SLOT
from crashsim.machines.warmup import warm_up

BOOT_SECONDS = 180.0
RESTORE_SECONDS = 60.0

GUEST_TIME_SECONDS = 1_750_000_000
"""The time of day that every guest starts with (June 2025): equal runs get equal timestamps."""

AGENT_DIRECTORY = Path(__file__).parent / "agent"
_NO_SOCKETS = Sockets(0, 0, 0, (0,) * CRASH_DISKS)


class QemuMachine:
    """Starts guests of one image, with KVM where that works.

    All guests start from one snapshot, so they also share its randomness: two guests make the same
    "random" choices if asked the same. That is wanted here (runs can be repeated), and one more
    reason why such a guest should guard no secret.

    :ivar info: what is known before a guest has started.
    """

    kind = "qemu"

    def __init__(self, spec: ImageSpec | None = None, *, progress: Progress | None = None) -> None:
        """Find the image of `spec`, or build it, telling `progress`.

        Raises MachineUnusable, and what `find_or_build_image` raises.
        """
        spec = spec or ImageSpec()
        version = self._qemu_version()
        self._image = find_or_build_image(spec, progress)
        accelerator, reason = self._choose_accelerator()
        self._initramfs = compose_initramfs(self._image, AGENT_DIRECTORY, spec.payload)
        self.info = MachineInfo(self.kind, accelerator, self._image.kernel_release, reason)
        nothing = Path()
        self._key = snapshot_key(
            [
                version,
                self._image.rootfs_digest,
                xxhash.xxh3_128_digest(self._image.kernel.read_bytes()),
                xxhash.xxh3_128_digest(self._initramfs),
                _host_processor() if accelerator == "kvm" else "",
                *Hardware(accelerator, nothing, nothing, "", nothing, True).arguments(_NO_SOCKETS),
            ]
        )

    @property
    def kernel(self) -> Path:
        """The kernel that its guests boot."""
        return self._image.kernel

    def start(self, *, raw_disks: Mapping[int, Path] | None = None) -> QemuGuest:
        """A fresh guest. The first one ever takes a boot (ten seconds or so without KVM).

        :param raw_disks: slot -> a file of CRASH_DISK_BYTES that QEMU itself uses for that slot;
            nothing can be attached there.

        Raises GuestDied or another InfrastructureError when it does not come up. A snapshot that
        QEMU refuses (damaged, or removed in this moment) is thrown away and made anew, once.
        """
        try:
            return self._start(self.snapshot(), raw_disks or {})
        except GuestDied as error:
            if error.cause is not Cause.GONE:
                raise
            discard(self._image.snapshots, self._key)
            return self._start(self.snapshot(), raw_disks or {})

    def _start(self, snapshot: Snapshot, raw_disks: Mapping[int, Path]) -> QemuGuest:
        guest = self._restore(snapshot, raw_disks)
        try:
            self.info = replace(self.info, kernel=guest.hello(RESTORE_SECONDS).kernel)
            guest.info = self.info
            guest.set_clock(GUEST_TIME_SECONDS)
        except BaseException:
            guest.kill()
            raise
        return guest

    def snapshot(self) -> Snapshot:
        """The boot snapshot, made now if need be."""
        found = find_snapshot(self._image.snapshots, self._key)
        if found is None:
            with making(self._image.snapshots, self._key) as snapshot:
                if snapshot is not None:
                    self._boot_and_save(snapshot)
            found = find_snapshot(self._image.snapshots, self._key)
        if found is None:
            raise MachineUnusable(f"the boot snapshot vanished from {self._image.snapshots}")
        return found

    def boot(self, memory: Path) -> QemuGuest:
        """A guest that boots from power-on, its memory in a file; without a warm-up."""
        with memory.open("wb") as file:
            file.truncate(MEMORY_MIB << 20)
        descriptor = os.memfd_create("initramfs", os.MFD_CLOEXEC)
        with os.fdopen(descriptor, "wb") as initramfs:
            initramfs.write(self._initramfs)
            initramfs.flush()
            hardware = self._hardware(memory, f"/proc/self/fd/{descriptor}", shares_memory=True)
            return QemuGuest(self.info, hardware.arguments, [descriptor], self._launch)

    def _boot_and_save(self, snapshot: Snapshot) -> None:
        with self.boot(snapshot.memory) as guest, contextlib.ExitStack() as disks:
            guest.wait_for_agent(BOOT_SECONDS)
            disk = MemoryDisk(CRASH_DISK_BYTES)
            disks.callback(disk.close)
            guest.attach(WARM_UP_SLOT, disk)
            warm_up(guest)
            guest.attach(WARM_UP_SLOT, NullDisk(CRASH_DISK_BYTES))
            if guest.hello().tainted:
                raise MachineUnusable("the guest's kernel is tainted before anything was tested")
            guest.save(snapshot.devices)

    def _restore(self, snapshot: Snapshot, raw_disks: Mapping[int, Path]) -> QemuGuest:
        hardware = self._hardware(snapshot.memory, "", shares_memory=False)
        hardware = replace(hardware, raw_disks=raw_disks)
        guest = QemuGuest(
            self.info,
            lambda sockets: [*hardware.arguments(sockets), "-incoming", "defer"],
            launch=self._launch,
        )
        try:
            guest.load(snapshot.devices)
        except BaseException:
            guest.kill()
            raise
        return guest

    def _hardware(self, memory: Path, initramfs: str, *, shares_memory: bool) -> Hardware:
        return Hardware(
            self.info.accel,
            self._image.rootfs,
            self._image.kernel,
            initramfs,
            memory,
            shares_memory,
        )

    # Where QEMU runs: `docker` does it elsewhere.

    def _qemu_version(self) -> str:
        return qemu_version()

    def _choose_accelerator(self) -> tuple[str, str]:
        return choose_accelerator(self.kernel)

    def _launch(self, arguments: Sequence[str], descriptors: Sequence[int]) -> RunningQemu:
        return QemuProcess(arguments, descriptors)


def _host_processor() -> str:
    """What the guest's processor depends on where it is the host's own."""
    lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").split("\n\n")[0].splitlines()
    return "\n".join(
        line for line in lines if line.startswith(("model name", "flags", "microcode"))
    )
