"""Filesystems with a second crash disk: how they are spelled, made, mounted, recorded and told."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from typer.testing import CliRunner

from crashsim.campaigns.methods import find_method
from crashsim.campaigns.recorded import open_recorded
from crashsim.campaigns.validate import ModelOptions, validate_in_model
from crashsim.campaigns.validation import ValidationResult
from crashsim.cli.main import app
from crashsim.disk.image import ImageIndex
from crashsim.disk.log import Log
from crashsim.disk.profile import parse_profile
from crashsim.disk.recording import Recording, RecordingUnreadable
from crashsim.disk.request import Operation, Request
from crashsim.disk.server import Disk
from crashsim.errors import UsageError
from crashsim.explain.survey import survey
from crashsim.machines.agent.mounts import mounts_inside
from crashsim.machines.crash_disks import attach_disks
from crashsim.machines.filesystems import (
    FILESYSTEM_UUID,
    FILESYSTEMS,
    OBJECTS,
    SECOND_UUID,
    NoSuchSecondDisk,
    parse_filesystem,
    resized,
)
from crashsim.machines.hardware import CRASH_DISK_BYTES
from crashsim.machines.protocol import Guest, Mount
from crashsim.report.validation import validation_markdown
from crashsim.workloads.git import GIT_DIRECTORY
from crashsim.workloads.marks import START
from crashsim.workloads.protocol import Step
from crashsim.workloads.record import record
from crashsim.workloads.session import Clock
from crashsim.workloads.simulated import OPERATIONS
from impl.durability.methods.paired_syncfs import PairedSyncfs
from tests.support.scripted_guest import ScriptedGuest, ScriptedMachine

PAGE = 4096
INNER = Mount(1, "xfs", "noatime", at=f"/mnt/0/{OBJECTS}")


def test_objects_are_where_the_workloads_have_them() -> None:
    assert f"{GIT_DIRECTORY}/objects" == OBJECTS


@pytest.mark.parametrize(
    "text",
    ["xfs+objects", "ext4+log:data=journal", "f2fs+objects", "btrfs+objects:compress=zstd"],
)
def test_a_spelling_means_itself(text: str) -> None:
    filesystem = parse_filesystem(text)
    assert filesystem.spelling == text
    assert filesystem.disks == 2
    assert parse_filesystem(filesystem.spelling) == filesystem
    assert resized(filesystem, filesystem.size_bytes) == filesystem


@pytest.mark.parametrize(
    "text", ["btrfs+log", "f2fs+log", "xfs+", "xfs+nothing", "ext4+log+objects"]
)
def test_what_no_second_disk_is_for_is_refused(text: str) -> None:
    with pytest.raises(NoSuchSecondDisk, match="second disk is for") as refusal:
        parse_filesystem(text)
    assert isinstance(refusal.value, UsageError)


def test_one_disk_is_as_it_was() -> None:
    for filesystem in FILESYSTEMS.values():
        assert filesystem.disks == 1
        assert filesystem.mount(0).then == ()


def test_a_second_filesystem_is_mounted_inside_and_has_an_identity_of_its_own() -> None:
    filesystem = parse_filesystem("xfs+objects")
    assert filesystem.mount(0) == Mount(0, "xfs", "noatime", then=(INNER,))
    assert filesystem.second is not None
    words = " ".join(filesystem.second.mkfs_argv)
    assert SECOND_UUID in words
    assert FILESYSTEM_UUID not in words
    assert FILESYSTEM_UUID in " ".join(filesystem.mkfs_argv)


@pytest.mark.parametrize("name", FILESYSTEMS)
def test_the_two_are_told_apart_wherever_mkfs_takes_an_identity(name: str) -> None:
    second = parse_filesystem(f"{name}+objects").second
    assert second is not None
    assert second.mkfs_argv != FILESYSTEMS[name].mkfs_argv


def test_a_log_is_found_by_a_mount_option_in_recoveries_too() -> None:
    assert parse_filesystem("xfs+log").mount(0).options == "noatime,logdev=/dev/vdc"
    ext4 = parse_filesystem("ext4+log:commit=9").mount(0, short_commit=True)
    assert ext4.options == "noatime,commit=1,commit=9,journal_path=/dev/vdc"
    assert "-J device=/dev/vdc" in parse_filesystem("ext4+log").mkfs_argv[-1]
    assert "-J size" not in parse_filesystem("ext4+log").mkfs_argv[-1]


def test_what_is_mounted_inside_is_found_last_first(tmp_path: Path) -> None:
    table = tmp_path / "mounts"
    table.write_text(
        "/dev/vdb /mnt/0 xfs rw 0 0\n/dev/vdd /mnt/01 xfs rw 0 0\n"
        "/dev/vdc /mnt/0/a xfs rw 0 0\n/dev/vde /mnt/0/a/b xfs rw 0 0\n"
    )
    assert mounts_inside("/mnt/0", str(table)) == ["/mnt/0/a/b", "/mnt/0/a"]


@dataclass
class TwoDisks(ScriptedGuest):
    """A guest whose program writes to both disks, and flushes one of them."""

    disks: dict[int, Disk] = field(default_factory=dict)

    def attach(self, slot: int, disk: Disk, *_: object) -> None:
        self.calls.append(("attach", slot))
        self.disks[slot] = disk

    def write_to(self, slot: int, data: bytes) -> None:
        self.disk = self.disks[slot]
        self.write(0, data * PAGE)

    def flush_of(self, slot: int) -> None:
        self.disk = self.disks[slot]
        self.flush()

    def format(self, slot: int, fstype: str, argv: Sequence[str]) -> None:
        self.calls.append(("format", slot))
        self.write_to(slot, b"f")


@dataclass
class OneStep:
    collect: Sequence[str] = (GIT_DIRECTORY,)
    name: str = "one-step"
    steps: Sequence[Step] = (Step("only", ("work",)),)
    environment: Mapping[str, str] = field(default_factory=dict)

    def prepare(self, guest: Guest, root: str) -> None:
        guest.run(["prepare"])

    def describe(self) -> Mapping[str, object]:
        return {}


def recorded(directory: Path, fs: str, workload: OneStep) -> TwoDisks:
    guest = TwoDisks()

    def behave(_guest: ScriptedGuest, argv: Sequence[str], _mark: object) -> None:
        if argv[0] == "work":
            guest.write_to(0, b"0")
            guest.write_to(1, b"1")
            guest.flush_of(1)

    guest.behave = behave
    slept: list[float] = []
    clock = Clock(monotonic=lambda: sum(slept), sleep=slept.append)
    record(ScriptedMachine(guest), workload, parse_filesystem(fs), directory, clock=clock)
    return guest


def test_both_disks_are_made_mounted_synced_and_in_one_log(tmp_path: Path) -> None:
    guest = recorded(tmp_path, "xfs+objects", OneStep())

    mounts = [value for name, value in guest.calls if name == "mount"]
    assert [each.slot for each in mounts] == [0, 1]
    assert mounts[1] == INNER
    made = [value for name, value in guest.calls if name in ("attach", "format")]
    assert made == [0, 1, 1, 0]
    ran = [value[0] for name, value in guest.calls if name == "run"]
    assert ran.index(("mkdir", "-p", INNER.at)) < ran.index(("prepare",))
    syncs = [argv for argv in ran if "sync" in " ".join(argv)]
    assert len(syncs) == 4
    assert all(argv[-2:] == ("/mnt/0", INNER.at) for argv in syncs)
    recording = Recording.open(tmp_path)
    assert recording.manifest.disks == 2
    assert recording.manifest.details["filesystem"] == "xfs+objects"
    with recording.log() as log:
        assert (log.disks, log.disk_bytes) == (2, CRASH_DISK_BYTES)
        at_start = next(mark.position for mark in log.marks if mark.text == START)
        after = log.requests.submitted_at > at_start
        assert log.requests.offset_bytes[after].tolist() == [0, CRASH_DISK_BYTES, CRASH_DISK_BYTES]


def test_objects_need_a_repository(tmp_path: Path) -> None:
    with pytest.raises(NoSuchSecondDisk, match="take git or impl"):
        recorded(tmp_path, "xfs+objects", OneStep(collect=("",)))
    recorded(tmp_path / "log", "xfs+log", OneStep(collect=("",)))


def test_no_block_of_several_disks_is_given_a_name_that_may_be_wrong(tmp_path: Path) -> None:
    recorded(tmp_path, "xfs+objects", OneStep())
    with Log.open(tmp_path) as log:
        found = survey(ImageIndex(log), "xfs", [])
        assert not found.names_blocks
        numbers = list(found.writes)
        assert [found.words(number) for number in numbers] == [
            "a block of disk 1",
            "a block of disk 2",
        ]


@dataclass
class Places:
    """A disk that notes where it is written to."""

    size_bytes: int
    seen: list[int] = field(default_factory=list)

    def arrived(self, request: Request) -> int:
        self.seen.append(request.offset_bytes)
        return 0

    def perform(self, request: Request) -> bytes:
        return b""

    def replied(self, ticket: int, error: int) -> None:
        """Nothing to note."""


def test_each_part_is_attached_to_its_slot() -> None:
    guest, whole = TwoDisks(), Places(2 * CRASH_DISK_BYTES)
    attach_disks(guest, whole, 2, 0)
    for slot in (1, 0):
        guest.disk = guest.disks[slot]
        guest.send(Request(Operation.WRITE, PAGE, PAGE, False, bytes(PAGE)))
    assert whole.seen == [CRASH_DISK_BYTES + PAGE, PAGE]


class SyncsOnlyWhatItChangedLast(PairedSyncfs):
    """`paired-syncfs` without the sync between objects and what may lead to them."""

    name = "no-sync-between"

    def publishing(self, phase: object, files: Sequence[object]) -> None:
        """The first sync only."""
        self._sync(self._content_unsynced)
        self._names_unsynced |= set(self._device_of.values())


SOME = ModelOptions(
    operations=(OPERATIONS["add"], OPERATIONS["tag"]), states_limit=150, split="objects"
)
FAMILIES = ("ext4", "xfs", "btrfs", "f2fs")


def lost(result: ValidationResult) -> dict[str, list[str]]:
    return {each.fs: each.refuted for each in result.filesystems if each.refuted}


@pytest.mark.parametrize("name", ["fsync", "batch", "index-flush"])
def test_a_method_of_one_flush_loses_objects_on_another_disk(name: str) -> None:
    result = validate_in_model(find_method(name), ("ext4", "xfs"), SOME)
    assert lost(result) == {"ext4": ["intact"], "xfs": ["intact"]}
    assert result.split == "objects"


@pytest.mark.parametrize("name", ["strict", "paired-syncfs"])
def test_a_method_that_syncs_each_filesystem_keeps_what_it_claims(name: str) -> None:
    assert lost(validate_in_model(find_method(name), FAMILIES, SOME)) == {}


def test_our_own_needs_the_sync_in_between() -> None:
    method = find_method(f"{__name__}:{SyncsOnlyWhatItChangedLast.__name__}")
    assert set(lost(validate_in_model(method, FAMILIES, SOME))) == set(FAMILIES)


def test_the_table_says_what_is_lost_and_shows_a_crash() -> None:
    page = validation_markdown(validate_in_model(find_method("fsync"), ("ext4", "btrfs"), SOME))
    assert "| `fsync` | **loses intact**; keeps recoverable | keeps recoverable |" in page
    assert "- `fsync` loses intact, ext4, after `add`:" in page
    assert ": lost" in page


@pytest.mark.parametrize(
    "options",
    [
        ("--split", "nowhere"),
        ("--split", "HEAD"),
        ("--split", "objects", "--full"),
        ("--split", "objects", "--necessity"),
        ("--split", "objects", "--errors"),
    ],
)
def test_a_split_that_makes_no_sense_is_one_line(options: Sequence[str]) -> None:
    found = CliRunner().invoke(app, ["validate", "--method", "fsync", "--fs", "xfs", *options])
    assert isinstance(found.exception, UsageError)


def test_a_recording_is_not_opened_as_one_of_another_number_of_disks(tmp_path: Path) -> None:
    recorded(tmp_path, "xfs+objects", OneStep())
    one, profile = parse_filesystem("xfs"), parse_profile("default")
    with (
        pytest.raises(RecordingUnreadable, match=r"of 2 disk\(s\), xfs has 1"),
        open_recorded(tmp_path, one, {}, (), profile),
    ):
        pytest.fail("it was opened")
