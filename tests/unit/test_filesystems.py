import pytest

from crashsim.errors import UsageError
from crashsim.machines.filesystems import (
    FILESYSTEMS,
    BadMountOption,
    UnknownFilesystem,
    parse_filesystem,
)
from crashsim.machines.protocol import Mount


def test_a_name_alone_mounts_with_the_filesystems_own_defaults() -> None:
    assert parse_filesystem("xfs").mount(1) == Mount(1, "xfs", "noatime")


def test_options_are_kept_in_their_order_and_spelled_back() -> None:
    filesystem = parse_filesystem("ext4:data=writeback,commit=30")

    assert filesystem.mount_options == ("data=writeback", "commit=30")
    assert filesystem.spelling == "ext4:data=writeback,commit=30"
    assert parse_filesystem(filesystem.spelling) == filesystem


def test_the_users_options_come_after_ours_and_so_win() -> None:
    mount = parse_filesystem("ext4:commit=30").mount(0, short_commit=True)

    assert mount.options == "noatime,commit=1,commit=30"


def test_a_recovery_does_not_hurry_commits() -> None:
    for filesystem in FILESYSTEMS.values():
        assert "commit" not in filesystem.mount(0).options


@pytest.mark.parametrize("fstype", FILESYSTEMS)
def test_every_filesystem_can_be_made_to_commit_each_second(fstype: str) -> None:
    filesystem = FILESYSTEMS[fstype]

    assert filesystem.short_commit_options or filesystem.short_commit_settings


@pytest.mark.parametrize("text", ["ext3", "", "EXT4", "ext4 ", "../ext4", "zfs:compress=on"])
def test_an_unknown_name_is_refused_and_the_known_ones_named(text: str) -> None:
    with pytest.raises(UnknownFilesystem, match="ext4, xfs, btrfs, f2fs") as refusal:
        parse_filesystem(text)
    assert isinstance(refusal.value, UsageError)


@pytest.mark.parametrize(
    "options",
    [
        "",
        "a,,b",
        ",commit=1",
        "commit=1,",
        "x;reboot",
        "x y",
        "$(id)",
        "a\nb",
        "data='ordered'",
        "ü",
        "x" * 300,
    ],
)
def test_malformed_options_are_refused(options: str) -> None:
    with pytest.raises(BadMountOption):
        parse_filesystem(f"ext4:{options}")


@pytest.mark.parametrize("option", ["ro", "noload", "norecovery", "rescue=nologreplay", "remount"])
def test_options_that_leave_out_recovery_are_refused(option: str) -> None:
    with pytest.raises(BadMountOption, match="recovery"):
        parse_filesystem(f"btrfs:compress=zstd:3,{option}")
