"""The virtual hardware of a guest, as QEMU's command line.

One virtual CPU: a second one makes an emulated guest slower and its runs less alike. The crash
disks are virtio-blk with one queue and no merging of requests, so that what the guest's filesystem
submits is what the log holds; write-back caching, so that it sends flushes; discard and
write-zeroes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

CRASH_DISKS = 2
CRASH_DISK_BYTES = 16 << 30
MEMORY_MIB = 512
START_TIME = "2025-06-15T00:00:00"

KERNEL_PARAMETERS = (
    "console=ttyS0",
    "panic=-1",  # at once, and -no-reboot makes it QEMU's end
    "loglevel=4",  # errors only: each byte on the serial port costs an exit from the guest
    "rcupdate.rcu_expedited=1",  # most of the time of an emulated mount is synchronize_rcu()
    "nokaslr",  # equal addresses in equal kernels
    # Watchdogs measure the host's load more than the guest: only hung tasks are kept.
    "nowatchdog",
    "rcupdate.rcu_cpu_stall_suppress=1",
    "sysctl.kernel.hung_task_timeout_secs=60",
    # A throw-away guest has no secrets and no users.
    "mitigations=off",
    "audit=0",
    "apparmor=0",
    "init_on_alloc=0",
    "cryptomgr.notests",
    "no_timer_check",
    "random.trust_cpu=1",
)

EMULATION_PARAMETERS = (
    # The processor's own CRC instructions, emulated, are slower than tables: a fifth of a mount.
    "module_blacklist=crc32c_intel",
)


@dataclass(frozen=True, slots=True)
class Sockets:
    """Descriptors of QEMU's ends of its channels."""

    monitor: int
    console: int
    agent: int
    disks: tuple[int, ...]

    @property
    def all(self) -> tuple[int, ...]:
        """Every one of them."""
        return (self.monitor, self.console, self.agent, *self.disks)


@dataclass(frozen=True, slots=True)
class Hardware:
    """What a virtual machine is made of.

    :ivar memory: the file that backs the guest's memory.
    :ivar shares_memory: whether what the guest writes to its memory goes to that file.
    :ivar raw_disks: slots whose crash disk is QEMU's own plain file instead of ours, to compare.
    """

    accelerator: str
    rootfs: Path
    kernel: Path
    initramfs: str
    memory: Path
    shares_memory: bool
    raw_disks: Mapping[int, Path] = field(default_factory=dict)

    def arguments(self, sockets: Sockets) -> list[str]:
        """QEMU's command line. What a path is written in is not allowed to be an option."""
        emulation = EMULATION_PARAMETERS if self.accelerator == "tcg" else ()
        return [
            *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
            *("-name", "crashsim", "-sandbox", "on,spawn=deny,elevateprivileges=deny"),
            *self._board(),
            *("-kernel", str(self.kernel)),
            *(("-initrd", self.initramfs) if self.initramfs else ()),
            *("-append", " ".join((*KERNEL_PARAMETERS, *emulation))),
            *_channels(sockets),
            *self._root_disk(),
            *(
                word
                for slot, number in enumerate(sockets.disks)
                for word in _crash_disk(slot, self._crash_blockdev(slot, number))
            ),
        ]

    def _board(self) -> list[str]:
        cpu = "host" if self.accelerator == "kvm" else "max,la57=off"
        share = "on" if self.shares_memory else "off"
        memory = f"memory-backend-file,id=memory,size={MEMORY_MIB}M,share={share},mem-path="
        return [
            *("-machine", f"pc,accel={self.accelerator},usb=off,vmport=off,memory-backend=memory"),
            *("-object", memory + _escape(self.memory)),
            *("-cpu", cpu, "-smp", "1", "-m", str(MEMORY_MIB)),
            # The guest's time, not the host's: the same in every boot.
            *("-rtc", f"base={START_TIME},clock=vm"),
        ]

    def _crash_blockdev(self, slot: int, descriptor: int) -> str:
        if slot in self.raw_disks:
            return "driver=file,cache.direct=off,filename=" + _escape(self.raw_disks[slot])
        return f"driver=nbd,server.type=fd,server.str={descriptor},export="

    def _root_disk(self) -> list[str]:
        return [
            "-blockdev",
            "driver=file,node-name=root,read-only=on,auto-read-only=off,locking=off,filename="
            + _escape(self.rootfs),
            *("-device", "virtio-blk-pci,drive=root,num-queues=1"),
        ]


def _channels(sockets: Sockets) -> list[str]:
    return [
        *("-chardev", f"socket,id=monitor,fd={sockets.monitor}"),
        *("-mon", "chardev=monitor,mode=control"),
        *("-chardev", f"socket,id=console,fd={sockets.console}"),
        *("-serial", "chardev:console"),
        *("-chardev", f"socket,id=agent,fd={sockets.agent}"),
        *("-device", "virtio-serial-pci,max_ports=2"),
        *("-device", "virtserialport,chardev=agent,name=crashsim.agent"),
    ]


def _crash_disk(slot: int, blockdev: str) -> list[str]:
    return [
        "-blockdev",
        f"{blockdev},node-name=disk{slot},discard=unmap",
        "-device",
        f"virtio-blk-pci,drive=disk{slot},serial=crashsim{slot},num-queues=1,request-merging=off,"
        "write-cache=on,discard=on,write-zeroes=on",
    ]


def _escape(path: Path) -> str:
    """A path as the value of an option: a comma is doubled (qemu(1))."""
    return str(path).replace(",", ",,")
