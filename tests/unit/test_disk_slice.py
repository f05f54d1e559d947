"""A sliced recording means the same at its cut."""

import random
from pathlib import Path

import pytest

from crashsim.disk.durability import pending
from crashsim.disk.image import ImageIndex
from crashsim.disk.recording import Manifest, Recording
from crashsim.disk.request import PAGE_BYTES, Operation, Request
from crashsim.disk.slice import slice_recording
from crashsim.disk.state import CrashState

DISK_BYTES = 1 << 20


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    """Two hundred requests in random order of completion, with a mark after every tenth."""
    chooser = random.Random(7)
    recording = Recording.create(tmp_path / "whole", Manifest(disk_size_bytes=DISK_BYTES))
    with recording.writer() as writer:
        for number in range(200):
            if number % 10 == 9:
                writer.complete(writer.submit(Request(Operation.FLUSH)))
                writer.mark(f"promise {number}")
                continue
            offset = chooser.randrange(0, 64) * PAGE_BYTES
            data = chooser.randbytes(chooser.choice((512, PAGE_BYTES, 2 * PAGE_BYTES)))
            written = writer.submit(Request(Operation.WRITE, offset, len(data), data=data))
            if chooser.random() < 0.8:
                writer.complete(written)
    return recording


@pytest.mark.parametrize("cut", [0, 1, 57, 200, 398])
@pytest.mark.parametrize("later_events", [0, 40])
def test_a_slice_has_the_same_images_pending_writes_and_marks(
    recording: Recording, tmp_path: Path, cut: int, later_events: int
) -> None:
    sliced = slice_recording(
        recording.directory, cut, tmp_path / "slice", later_events=later_events
    )

    with recording.log() as whole, sliced.log() as part:
        assert [mark.text for mark in part.marks] == [mark.text for mark in whole.marks]
        assert part.marks_before(cut) == whole.marks_before(cut)
        assert list(pending(part, cut)) == list(pending(whole, cut))
        losable = frozenset(int(write) for write in list(pending(whole, cut))[::2])
        state = CrashState(cut, losable)
        of_whole, of_part = ImageIndex(whole), ImageIndex(part)
        for page in range(DISK_BYTES // PAGE_BYTES):
            assert of_part.page(state, page) == of_whole.page(state, page)


def test_a_slice_is_smaller(recording: Recording, tmp_path: Path) -> None:
    sliced = slice_recording(recording.directory, 40, tmp_path / "slice", later_events=0)

    def size(of: Recording) -> int:
        return (of.directory / "data.bin").stat().st_size

    assert size(sliced) < size(recording) / 3
