"""A reader of cpio archives, written from the kernel's description of the format."""

import stat
from dataclasses import dataclass


@dataclass(frozen=True)
class Member:
    mode: int
    content: bytes
    device: tuple[int, int] = (0, 0)
    links: int = 1


def read_archive(data: bytes) -> dict[str, Member]:
    """Parse archives that follow one another, as strictly as the kernel does."""
    members: dict[str, Member] = {}
    linked: dict[int, bytes] = {}
    position = 0
    while position < len(data):
        assert position % 4 == 0
        header = data[position : position + 110]
        assert header[:6] == b"070701"
        fields = [int(header[6 + 8 * n : 14 + 8 * n], 16) for n in range(13)]
        size, name_size = fields[6], fields[11]
        name = data[position + 110 : position + 110 + name_size]
        assert name.endswith(b"\0")
        position = -(-(position + 110 + name_size) // 4) * 4
        content = data[position : position + size]
        assert len(content) == size
        position = -(-(position + size) // 4) * 4
        text = name[:-1].decode("utf-8", "surrogateescape")
        if text == "TRAILER!!!":
            linked.clear()
            continue
        parent = text.rpartition("/")[0]
        assert not parent or stat.S_ISDIR(members[parent].mode), f"{parent} must come before {text}"
        assert text not in members
        links = fields[4] if stat.S_ISREG(fields[1]) else 1
        if links > 1:
            first = linked.setdefault(fields[0], content)
            assert content in (b"", first)
            content = first
        members[text] = Member(fields[1], content, (fields[9], fields[10]), links)
    return members
