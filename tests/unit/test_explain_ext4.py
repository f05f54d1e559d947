"""ext4's blocks by name, held against what e2fsprogs itself says of the same image."""

import re
import struct
import subprocess
from pathlib import Path

import pytest

from crashsim.explain.blocks import Block, NoLayout, Owner, Role
from crashsim.explain.ext4 import Ext4Layout
from crashsim.explain.ext4_files import directory_entries, read_extents
from crashsim.explain.jbd2 import Journal
from crashsim.explain.layouts import read_layout
from tests.support import ext4_story
from tests.support.ext4_story import BLOCK, SIZE, Images

pytestmark = pytest.mark.skipif(ext4_story.tools_missing(), reason="e2fsprogs is not installed")


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ext4")


@pytest.fixture(scope="module")
def images(directory: Path) -> Images:
    return ext4_story.make_images(directory)


def layout_of(image: bytes) -> Ext4Layout:
    return Ext4Layout(lambda offset, length: image[offset : offset + length])


def named(layout: Ext4Layout, image: bytes) -> dict[int, Block]:
    """Every block of an image that is not all zeroes, by its number."""
    found = {}
    for at in range(0, SIZE, BLOCK):
        if any(image[at : at + BLOCK]):
            (found[at // BLOCK],) = layout.blocks(at, image[at : at + BLOCK])
    return found


def debugfs(image: Path, command: str) -> str:
    done = subprocess.run(
        ["debugfs", "-R", command, str(image)], capture_output=True, text=True, check=True
    )
    return done.stdout


def test_the_journal_carries_what_debugfs_says_it_does(directory: Path, images: Images) -> None:
    dump = debugfs(directory / "journaled", "logdump -a")
    logged = re.findall(r"FS block (\d+) logged at journal block (\d+)", dump)
    (commit,) = re.findall(r"sequence (\d+), type 2 \(commit block\) at block (\d+)", dump)
    first = int(debugfs(directory / "base", "bmap <8> 0"))

    blocks = named(layout_of(images.base), images.journaled)

    assert len(logged) == len(images.homes) == 6
    for home, place in logged:
        block = blocks[first + int(place)]
        assert (block.role, block.transaction) == (Role.JOURNAL, commit[0])
        assert block.home == int(home) * BLOCK
    end = blocks[first + int(commit[1])]
    assert (end.role, end.what) == (Role.COMMIT, f"journal commit block {commit[0]}")


def test_bitmaps_and_inode_tables_are_where_dumpe2fs_says(directory: Path, images: Images) -> None:
    report = subprocess.run(
        ["dumpe2fs", str(directory / "base")], capture_output=True, text=True, check=True
    ).stdout
    (block_bitmap,) = re.findall(r"Block bitmap at (\d+)", report)
    (inode_bitmap,) = re.findall(r"Inode bitmap at (\d+)", report)
    (table,) = re.findall(r"Inode table at (\d+)-", report)

    layout = layout_of(images.base)

    assert layout.area(int(block_bitmap)) == "block bitmap of group 0"
    assert layout.area(int(inode_bitmap)) == "inode bitmap of group 0"
    assert layout.area(int(table)) == "inode table (inodes 1 to 16)"
    assert layout.area(int(table) + 1) == "inode table (inodes 17 to 32)"
    assert layout.area(int(table) - 1) == ""
    assert layout.area(0) == "superblock"


def test_the_new_file_is_found_by_name_and_by_place(directory: Path, images: Images) -> None:
    (inode,) = re.findall(r"Inode: (\d+)", debugfs(directory / "after", "stat repo/precious"))
    place = int(debugfs(directory / "after", "bmap repo/precious 1")) * BLOCK
    layout = layout_of(images.base)

    entries: frozenset[int] = frozenset()
    owners: frozenset[Owner] = frozenset()
    for number, block in named(layout, images.journaled).items():
        data = images.journaled[number * BLOCK : (number + 1) * BLOCK]
        entries |= layout.entries(data, b"precious")
        owners |= layout.owners(block.home or number * BLOCK, data, place)

    assert entries == {int(inode)}
    assert owners == {Owner(int(inode), len(ext4_story.CONTENT))}


def test_data_is_neither_metadata_nor_a_directory(images: Images) -> None:
    layout = layout_of(images.base)

    (block,) = layout.blocks(7000 * BLOCK, b"some text\n" * 400 + bytes(96))

    assert block.role is Role.UNKNOWN


def test_a_journal_that_goes_round_its_end_is_followed() -> None:
    """A descriptor in the journal's last block announces copies in its first ones."""

    journal = Journal(list(range(100, 108)))
    journal.learn(struct.pack(">IIIIII", 0xC03B3998, 4, 0, BLOCK, 8, 1) + bytes(1000))
    tags = struct.pack(">IHH", 500, 0, 0) + bytes(16) + struct.pack(">IHH", 501, 0, 2 | 8)
    descriptor = struct.pack(">III", 0xC03B3998, 1, 9) + tags

    name = journal.name(107, 0, descriptor.ljust(BLOCK, b"\0"))

    assert name.what == "journal descriptor block 9 (2 blocks)"
    assert journal.announced(101) == (9, 500)
    assert journal.announced(102) == (9, 501)
    assert journal.announced(101) is None


@pytest.mark.parametrize(
    ("offset", "value"),
    [
        (0x38, b"\0\0"),  # the magic number
        (0x18, b"\x1f\0\0\0"),  # the block size
        (0x20, b"\0\0\0\0"),  # blocks in a group
        (0x28, b"\xff\xff\xff\xff"),  # inodes in a group
        (0x58, b"\x03\0"),  # the inode size
        (0xFE, b"\x07\0"),  # the descriptor size
        (0x4, b"\xff\xff\xff\xff"),  # blocks: more groups than descriptors can be read
    ],
)
def test_a_damaged_superblock_is_refused(images: Images, offset: int, value: bytes) -> None:
    damaged = bytearray(images.base)
    damaged[1024 + offset : 1024 + offset + len(value)] = value

    with pytest.raises(NoLayout):
        layout_of(bytes(damaged))


def test_an_unknown_filesystem_is_refused_with_the_known_ones() -> None:
    with pytest.raises(NoLayout, match="ext4, xfs, btrfs, f2fs"):
        read_layout("minix", lambda offset, length: bytes(length))


def test_an_extent_that_is_not_initialised_counts_with_its_true_length() -> None:
    header = struct.pack("<HHHHI", 0xF30A, 2, 4, 0, 0)
    extents = struct.pack("<IHHI", 0, 3, 1, 7) + struct.pack("<IHHI", 3, 32768 + 2, 0, 20)

    assert read_extents(header + extents, BLOCK) == [(0, (1 << 32) + 7, 3), (3, 20, 2)]


def test_an_extent_tree_that_is_deeper_than_any_is_not_followed() -> None:
    header = struct.pack("<HHHHI", 0xF30A, 1, 4, 60000, 0)

    assert read_extents(header + bytes(48), BLOCK, lambda offset, length: header) == []


@pytest.mark.parametrize(
    "block",
    [
        b"",
        bytes(BLOCK),  # the first entry's length is 0
        struct.pack("<IHBB", 12, BLOCK + 4, 1, 1).ljust(BLOCK, b"a"),  # goes beyond the end
        struct.pack("<IHBB", 12, BLOCK, 1, 9).ljust(BLOCK, b"a"),  # no such file type
        struct.pack("<IHBB", 12, BLOCK, 1, 1).ljust(BLOCK, b"/"),  # no such name
        struct.pack("<IHBB", 12, 12, 8, 1).ljust(BLOCK, b"a"),  # the name is longer than the entry
    ],
)
def test_what_is_no_directory_block_has_no_entries(block: bytes) -> None:
    assert directory_entries(block) is None
