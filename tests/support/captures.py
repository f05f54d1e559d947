"""Blocks that Linux 6.12 wrote on XFS, btrfs and f2fs: `explain_captures.json`.

Some writes of a recording of git, and the parts of the disk that the layouts read first.
"""

import base64
import json
import zlib
from pathlib import Path

CAPTURES = json.loads((Path(__file__).parent / "explain_captures.json").read_text())
SMALL = "475ac4369e6f886ffaf180372b19e6b91253a3"
"""A loose object's file of 2043 bytes."""
LARGE = "40720b9ab5fd0e97447860b09f4c64255128a6"
"""One of 4662 bytes."""


def _unpacked(text: str) -> bytes:
    return zlib.decompress(base64.b64decode(text))


def read_parts(fstype: str) -> dict[int, bytes]:
    """Offset -> bytes, of what the layout reads."""
    return {offset: _unpacked(text) for offset, text in CAPTURES[fstype]["read"]}


def writes(fstype: str) -> list[tuple[int, bytes]]:
    """(offset, payload) of the captured writes."""
    return [(offset, _unpacked(text)) for offset, text in CAPTURES[fstype]["writes"]]


def small_content() -> bytes:
    """What the file `SMALL` holds; f2fs keeps it inside the file's inode."""
    (inode,) = [data for _, data in writes("f2fs") if SMALL.encode() in data and data[3] & 2]
    return inode[364 : 364 + 2043]
