"""What a power cut left, as a file that the next recording begins with."""

import random
from pathlib import Path

import pytest

from crashsim.disk.base_image import copy_image
from crashsim.disk.image import ImageIndex
from crashsim.disk.recording import BASE_NAME, Manifest, Recording
from crashsim.disk.recording_disk import RecordingDisk
from crashsim.disk.request import PAGE_BYTES, Operation, Request
from crashsim.disk.slice import slice_recording
from crashsim.disk.state import CrashState, TornWrite
from crashsim.disk.survivor import write_image

DISK_BYTES = 64 << 20
PAGES = 96


def record_writes(recording: Recording, seed: int) -> None:
    """Two hundred writes and zeroings, here and there and at the disk's far end."""
    chooser = random.Random(seed)
    with recording.writer() as writer:
        for _ in range(200):
            page = chooser.choice((chooser.randrange(PAGES), DISK_BYTES // PAGE_BYTES - 2))
            offset = page * PAGE_BYTES + chooser.choice((0, 512))
            if chooser.random() < 0.2:
                writer.submit(Request(Operation.WRITE_ZEROES, offset, PAGE_BYTES))
            else:
                data = chooser.randbytes(chooser.choice((512, PAGE_BYTES)))
                writer.submit(Request(Operation.WRITE, offset, len(data), data=data))


def content(recording: Recording, state: CrashState) -> bytes:
    with recording.log() as log:
        return ImageIndex(log, base=recording.base).read(state, 0, DISK_BYTES)


@pytest.fixture
def first(tmp_path: Path) -> Recording:
    recording = Recording.create(tmp_path / "1", Manifest(disk_size_bytes=DISK_BYTES))
    record_writes(recording, 1)
    return recording


def follow(first: Recording, state: CrashState, directory: Path) -> Recording:
    directory.mkdir()
    with first.log() as log:
        write_image(ImageIndex(log, base=first.base), state, directory / BASE_NAME)
    return Recording.create(directory, Manifest(disk_size_bytes=DISK_BYTES))


def test_the_next_recording_begins_with_exactly_what_the_cut_left(
    first: Recording, tmp_path: Path
) -> None:
    state = CrashState.make(150, dropped=(3, 77, 149), torn=(TornWrite(148, (0,)),))
    with first.log() as log:
        length = int(log.requests.length_bytes[148])
    if length == 512:  # nothing of it could be torn
        state = CrashState.make(150, dropped=(3, 77, 149))

    second = follow(first, state, tmp_path / "2")

    with second.writer() as writer:
        disk = RecordingDisk(writer, DISK_BYTES, second.base)
        seen = disk.perform(Request(Operation.READ, 0, PAGES * PAGE_BYTES))
        disk.close()
    expected = content(first, state)
    assert seen == expected[: PAGES * PAGE_BYTES]
    assert content(second, CrashState(0)) == expected


def test_a_third_life_holds_what_both_lives_before_it_wrote(
    first: Recording, tmp_path: Path
) -> None:
    second = follow(first, CrashState(200), tmp_path / "2")
    record_writes(second, 2)
    state = CrashState.make(180, dropped=(5, 6, 170))

    third = follow(second, state, tmp_path / "3")

    third.writer().close()
    assert content(third, CrashState(0)) == content(second, state)


def test_images_are_as_small_as_what_is_in_them(first: Recording, tmp_path: Path) -> None:
    second = follow(first, CrashState(200), tmp_path / "2")
    assert second.base is not None

    copy_image(second.base, tmp_path / "copy")

    assert (tmp_path / "copy").read_bytes() == second.base.read_bytes()
    for image in (second.base, tmp_path / "copy"):
        assert image.stat().st_blocks * 512 <= (PAGES + 8) * PAGE_BYTES


def test_a_slice_of_a_later_life_comes_with_its_beginning(first: Recording, tmp_path: Path) -> None:
    second = follow(first, CrashState(200), tmp_path / "2")
    record_writes(second, 2)
    state = CrashState.make(50, dropped=(7, 12))

    sliced = slice_recording(second.directory, 50, tmp_path / "slice", later_events=0)

    assert content(sliced, state) == content(second, state)
