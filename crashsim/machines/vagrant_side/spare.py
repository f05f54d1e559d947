"""The spare disk of the VM: the only one that nothing uses."""

import os
from pathlib import Path

SECTOR_BYTES = 512
BYTES_MIN = 2 << 30
LOG_MAGIC = (0x6A736677736872).to_bytes(8, "little")
"""How a log of dm-log-writes begins (drivers/md/dm-log-writes.c): a run of ours was here before."""

_NEVER = ("loop", "ram", "zram", "dm-", "nbd", "sr", "fd", "md")


class NoSpareDisk(Exception):
    """There is no disk in this VM that may be overwritten, or there are several."""


def find_spare(blocks: Path = Path("/sys/block")) -> tuple[str, int]:
    """(Node, bytes) of the one disk that nothing uses and nothing is on. Raises NoSpareDisk."""
    found = [name for name in sorted(os.listdir(blocks)) if _is_spare(blocks / name)]
    if len(found) != 1:
        told = ", ".join(found) or "none"
        raise NoSpareDisk(
            f"this VM needs one spare disk of {BYTES_MIN >> 30} GiB or more, blank and without "
            f"partitions, as the Vagrantfile gives it; there is {told}"
        )
    return f"/dev/{found[0]}", _size_bytes(blocks / found[0])


def _is_spare(block: Path) -> bool:
    if block.name.startswith(_NEVER) or _size_bytes(block) < BYTES_MIN:
        return False
    if any((block / name / "partition").exists() for name in os.listdir(block)):
        return False
    number = (block / "dev").read_text().strip()
    mounts = Path("/proc/self/mountinfo").read_text("utf-8", "replace").splitlines()
    swaps = Path("/proc/swaps").read_text().split()
    in_use = (
        any(os.scandir(block / "holders"))
        or number in [line.split()[2] for line in mounts]
        or f"/dev/{block.name}" in swaps
        or (block / "ro").read_text().strip() != "0"
    )
    return not in_use and may_be_overwritten(f"/dev/{block.name}")


def may_be_overwritten(path: str) -> bool:
    """Whether a disk begins with nothing, or with a log of our own."""
    with open(path, "rb") as file:
        start = file.read(64 << 10)
    return start.startswith(LOG_MAGIC) or not start.strip(b"\0")


def _size_bytes(block: Path) -> int:
    return int((block / "size").read_text()) * SECTOR_BYTES
