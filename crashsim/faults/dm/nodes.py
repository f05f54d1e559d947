"""Device nodes: the kernel's own where /dev is a devtmpfs, else made here."""

import errno
import os
import stat

MAPPER_DIRECTORY = "/dev/mapper"


def dev_is_devtmpfs() -> bool:
    """Whether the kernel makes nodes in /dev. In most containers /dev is a plain tmpfs."""
    kinds = []
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            # "... mount-point options [optional fields] - type source options": proc(5)
            before, _, after = line.partition(" - ")
            if before.split()[4] == "/dev":
                kinds.append(after.split()[0])
    # The last mount is on top.
    return bool(kinds) and kinds[-1] == "devtmpfs"


def kernel_node(minor: int) -> str:
    """Where the kernel puts the node of a device."""
    return f"/dev/dm-{minor}"


def own_node(name: str) -> str:
    """Where a node that is made here goes."""
    return f"{MAPPER_DIRECTORY}/{name}"


def is_node(path: str, major: int, minor: int) -> bool:
    """Whether `path` is the block device of this number, and no link to it."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return False
    return stat.S_ISBLK(status.st_mode) and status.st_rdev == os.makedev(major, minor)


def make_node(name: str, major: int, minor: int) -> str:
    """Make a node in /dev/mapper; its path. Raises OSError."""
    os.makedirs(MAPPER_DIRECTORY, exist_ok=True)
    path = own_node(name)
    os.mknod(path, stat.S_IFBLK | 0o600, os.makedev(major, minor))
    return path


def remove_own_node(name: str, major: int, minor: int) -> None:
    """Remove the node that `make_node` made, if it did. udev's are links, and are left alone."""
    path = own_node(name)
    if is_node(path, major, minor):
        os.unlink(path)


def exists(major: int, minor: int, uuid: str) -> bool:
    """Whether the block layer still has the device-mapper device of this number and uuid.

    It goes last: whatever lay below the device has been let go of by then.
    """
    place = f"/sys/dev/block/{major}:{minor}"
    try:
        with open(f"{place}/dm/uuid", encoding="utf-8") as file:
            return file.read().strip() == uuid
    except FileNotFoundError:
        return os.path.exists(place)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENODEV):
            raise
        return os.path.exists(place)  # it is being freed just now
