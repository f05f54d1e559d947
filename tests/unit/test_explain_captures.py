"""Blocks that Linux 6.12 wrote on XFS, btrfs and f2fs, by name and by what they say.

What the files' inode numbers, sizes and places are was read from the recording's final image with
ls, xfs_bmap and dump.f2fs, not with the code that is tested.
"""

import zlib
from collections.abc import Iterator

import pytest

from crashsim.explain.blocks import Block, Layout, NoLayout, Owner, Role
from crashsim.explain.layouts import read_layout
from crashsim.explain.xfs_log import record_body
from tests.support import captures

SMALL, LARGE = captures.SMALL.encode(), captures.LARGE.encode()


def layout_of(fstype: str) -> Layout:
    parts = captures.read_parts(fstype)
    return read_layout(fstype, lambda offset, length: parts[offset][:length])


def blocks_of(fstype: str, layout: Layout) -> Iterator[tuple[int, Block, bytes]]:
    """(place on the disk, block, its bytes) of all captured writes."""
    for offset, data in captures.writes(fstype):
        for block in layout.blocks(offset, data):
            yield offset + block.start, block, data[block.start : block.start + block.length_bytes]


def named(fstype: str) -> list[tuple[Role, str, str]]:
    layout = layout_of(fstype)
    return [(b.role, b.what, b.transaction) for _, b, _ in blocks_of(fstype, layout)]


def test_xfs_log_records_that_end_a_checkpoint() -> None:
    assert named("xfs") == [
        (Role.COMMIT, "log record 1:525", "1:525"),
        (Role.COMMIT, "log record 1:619", "1:619"),
    ]


def test_btrfs_trees_by_owner_and_superblocks_by_generation() -> None:
    leaf = (Role.METADATA, "filesystem tree leaf, generation 10", "10")
    assert named("btrfs") == [
        leaf,
        leaf,
        (Role.COMMIT, "superblock of generation 10", "10"),
        (Role.METADATA, "log tree leaf, generation 10", "log of 10"),
        (Role.COMMIT, "superblock of generation 9 with a log tree", "log of 10"),
        leaf,
    ]


def test_f2fs_nodes_directories_and_checkpoint_packs() -> None:
    version = 1804289385
    assert named("f2fs") == [
        (Role.METADATA, "directory block (., .., repo and 2 more)", ""),
        (Role.JOURNAL, f"first block of checkpoint {version} (pack 0)", str(version)),
        (Role.COMMIT, f"last block of checkpoint {version} (pack 0)", str(version)),
        (Role.UNKNOWN, "file data or metadata", ""),
        (Role.METADATA, "inode 130 (48)", str(version + 1)),
        (Role.METADATA, "inode 132 (04)", str(version + 1)),
        (Role.METADATA, f"inode 133 ({LARGE.decode()})", str(version + 1)),
        (Role.METADATA, f"inode 138 ({SMALL.decode()})", str(version + 1)),
        (Role.FSYNC, "inode 52 (log), with the fsync mark", str(version + 1)),
    ]


@pytest.mark.parametrize(
    ("fstype", "small", "large"), [("xfs", 262305, None), ("btrfs", 391, 386), ("f2fs", 138, 133)]
)
def test_directory_entries_tell_inode_numbers(fstype: str, small: int, large: int | None) -> None:
    layout = layout_of(fstype)
    blocks = [data for _, _, data in blocks_of(fstype, layout)]

    assert {inode for data in blocks for inode in layout.entries(data, SMALL)} == {small}
    found = {inode for data in blocks for inode in layout.entries(data, LARGE)}
    assert found == ({large} if large is not None else set())
    # A part of a name is not the name.
    assert not any(layout.entries(data, SMALL[:-1]) for data in blocks)
    assert not any(layout.entries(data, SMALL[1:]) for data in blocks)


@pytest.mark.parametrize(
    ("fstype", "place", "owner"),
    [
        ("xfs", 164_144 * 512, Owner(262_305, 2043)),
        ("btrfs", 14_176_256, Owner(386, 4662)),
        ("btrfs", 14_176_256 + 4096, Owner(386, 4662)),
        ("f2fs", 5666 * 4096, Owner(133, 4662)),
        ("f2fs", 5667 * 4096, Owner(133, 4662)),
    ],
)
def test_inodes_tell_where_their_data_is(fstype: str, place: int, owner: Owner) -> None:
    layout = layout_of(fstype)
    blocks = list(blocks_of(fstype, layout))

    found = {owner for home, _, data in blocks for owner in layout.owners(home, data, place)}

    # btrfs wrote the inode once before its size was known; on XFS the unrelated process had the
    # place before, as preallocation that it gave back.
    assert found - {Owner(owner.inode, 0), Owner(262_284, 62_464)} == {owner}


@pytest.mark.parametrize(("fstype", "inode"), [("btrfs", 391), ("f2fs", 138)])
def test_small_files_are_found_inside_their_metadata(fstype: str, inode: int) -> None:
    layout = layout_of(fstype)
    blocks = [data for _, _, data in blocks_of(fstype, layout)]
    content = captures.small_content()

    assert zlib.decompress(content).startswith(b"blob 2642\0")
    assert {each for data in blocks for each in layout.inline_owners(data, content)} == {inode}
    assert not any(layout.inline_owners(data, content[:-1]) for data in blocks)


def test_tree_blocks_in_one_write_stay_apart() -> None:
    layout = layout_of("btrfs")
    (first, one), (_, other), *_ = captures.writes("btrfs")

    blocks = layout.blocks(first, one + other)

    assert [(block.start, block.length_bytes) for block in blocks] == [(0, 16384), (16384, 16384)]


def test_the_words_that_the_xfs_log_replaces_are_put_back() -> None:
    """Each sector of a record begins with the cycle number, 1; the header has what was there."""
    (_, _, record), _ = blocks_of("xfs", layout_of("xfs"))
    sectors = range(512, len(record), 512)

    body = record_body(record)

    assert len(sectors) == 11
    assert {record[at : at + 4] for at in sectors} == {b"\0\0\0\1"}
    words = [body[at - 512 : at - 508] for at in sectors]
    assert words == [record[44 + 4 * n : 48 + 4 * n] for n in range(len(sectors))]
    assert len(set(words)) > 1
    assert all(body[at - 508 : at] == record[at + 4 : at + 512] for at in sectors)


@pytest.mark.parametrize("fstype", ["xfs", "btrfs", "f2fs", "ext4"])
@pytest.mark.parametrize("disk", [b"", bytes(1 << 17), b"\xff" * (1 << 17)])
def test_what_is_no_such_filesystem_is_refused(fstype: str, disk: bytes) -> None:
    with pytest.raises(NoLayout):
        read_layout(fstype, lambda offset, length: disk[offset : offset + length])


@pytest.mark.parametrize("fstype", ["xfs", "btrfs", "f2fs"])
def test_cut_off_and_garbled_blocks_are_named_without_an_exception(fstype: str) -> None:
    """Images are untrusted: whatever a block holds, it gets some name."""
    layout = layout_of(fstype)
    for offset, data in captures.writes(fstype):
        for end in (1, 100, 511, 1000, 4000, len(data)):
            garbled = bytes(
                byte ^ 0xA5 if at % 7 == 3 else byte for at, byte in enumerate(data[:end])
            )
            blocks = layout.blocks(offset, bytes(garbled))
            assert sum(block.length_bytes for block in blocks) == end
            layout.entries(bytes(garbled), SMALL)
            layout.owners(offset, bytes(garbled), 4096)
            layout.inline_owners(bytes(garbled), SMALL)
