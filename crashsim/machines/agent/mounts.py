"""Mounting and unmounting by the system calls, without programs in between.

mount(8) and umount(8) under emulation take longer than most recoveries. The same flags and the same
names of options: mount(2), mount(8).
"""

import ctypes
import errno
import fcntl
import os

from .wire import Refused

FLAGS = {
    "defaults": (0, 0),
    "ro": (1, 0),
    "rw": (0, 1),
    "nosuid": (2, 0),
    "suid": (0, 2),
    "nodev": (4, 0),
    "dev": (0, 4),
    "noexec": (8, 0),
    "exec": (0, 8),
    "sync": (16, 0),
    "async": (0, 16),
    "mand": (64, 0),
    "nomand": (0, 64),
    "dirsync": (128, 0),
    "noatime": (1 << 10, 0),
    "atime": (0, 1 << 10),
    "nodiratime": (1 << 11, 0),
    "diratime": (0, 1 << 11),
    "silent": (1 << 15, 0),
    "loud": (0, 1 << 15),
    "relatime": (1 << 21, 0),
    "norelatime": (0, 1 << 21),
    "strictatime": (1 << 24, 0),
    "lazytime": (1 << 25, 0),
    "nolazytime": (0, 1 << 25),
}
"""Option -> (flags that it sets, flags that it clears); values of linux/mount.h."""

BTRFS_CONTROL = "/dev/btrfs-control"
BTRFS_IOC_FORGET_DEV = 0x50009405
"""_IOW(0x94, 5, struct btrfs_ioctl_vol_args), of 4096 bytes: linux/btrfs.h."""

BTRFS_VOL_ARGS_BYTES = 4096

_library = ctypes.CDLL(None, use_errno=True)


def parse_options(options: str) -> tuple[int, str]:
    """Cut `ro,noatime,data=ordered` into mount(2)'s flags and the rest, for the filesystem."""
    flags = 0
    rest = []
    for option in filter(None, options.split(",")):
        if option in FLAGS:
            sets, clears = FLAGS[option]
            flags = (flags | sets) & ~clears
        else:
            rest.append(option)
    return flags, ",".join(rest)


def mount(source: str, target: str, fstype: str, options: str, makes_target: bool = True) -> None:
    """mount(2). Raises OSError.

    :param makes_target: whether the directory is made if it is missing: never one that is a part of
        what is tested.
    """
    flags, data = parse_options(options)
    if fstype == "btrfs":
        forget_btrfs_devices()
    if makes_target:
        os.makedirs(target, exist_ok=True)
    arguments = [os.fsencode(text) for text in (source, target, fstype)]
    if _library.mount(*arguments, ctypes.c_ulong(flags), os.fsencode(data) or None) != 0:
        _raise(target)


def unmount(target: str) -> None:
    """umount2(2), of what is mounted inside of it before, and forget what the kernel keeps of
    unmounted btrfs devices. Raises OSError."""
    if _library.umount2(os.fsencode(target), 0) != 0:
        inner = mounts_inside(target) if ctypes.get_errno() == errno.EBUSY else []
        if not inner:
            _raise(target)
        for each in [*inner, target]:
            if _library.umount2(os.fsencode(each), 0) != 0:
                _raise(each)
    forget_btrfs_devices()


def mounts_inside(target: str, table: str = "/proc/self/mounts") -> list[str]:
    """What is mounted below a directory, the last one first (proc_pid_mounts(5))."""
    with open(table, encoding="utf-8", errors="surrogateescape") as lines:
        points = [line.split(" ")[1] for line in lines]
    return [point for point in reversed(points) if point.startswith(target + "/")]


def forget_btrfs_devices() -> None:
    """Empty btrfs' list of scanned and unmounted devices.

    It outlives unmounting and failed mounts, with the generation that was seen: the next crash
    state on the same device has the same filesystem id and most often an older generation. Linux
    6.12 forgets a filesystem of one device by itself when it is unmounted; not every kernel does.
    """
    try:
        control = os.open(BTRFS_CONTROL, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENODEV, errno.ENXIO):
            return  # this kernel has no btrfs, or has not loaded it yet
        raise
    try:
        # No name in it means: all of them.
        fcntl.ioctl(control, BTRFS_IOC_FORGET_DEV, bytearray(BTRFS_VOL_ARGS_BYTES))
    finally:
        os.close(control)


def device_path(slot: int) -> str:
    """The block device of a crash disk: /dev/vda is the root filesystem."""
    if not 0 <= slot < 16:
        raise Refused(f"no disk has the number {slot}")
    return f"/dev/vd{chr(ord('b') + slot)}"


def mount_point(slot: int) -> str:
    """Where a crash disk is mounted."""
    return f"/mnt/{slot}"


def _raise(subject: str) -> None:
    code = ctypes.get_errno()
    raise OSError(code, os.strerror(code), subject)
