"""The manifest of a recording."""

import json
from pathlib import Path

import pytest

from crashsim.disk.log_writer import RecordingExists
from crashsim.disk.recording import (
    BASE_NAME,
    MANIFEST_NAME,
    Manifest,
    Recording,
    RecordingUnreadable,
)
from crashsim.disk.request import Operation, Request

SIZE = 1 << 20


def manifest() -> Manifest:
    return Manifest(
        disk_size_bytes=SIZE,
        filesystem="ext4",
        mkfs_argv=("mkfs.ext4", "-q"),
        mount_options="data=writeback",
        target="git",
        steps=("add", {"name": "commit"}),
        seed=7,
        machine={"kind": "qemu"},
        details={"nested": [1, 2, {"three": None}]},
    )


def test_a_recording_is_opened_as_it_was_made(tmp_path: Path) -> None:
    recording = Recording.create(tmp_path / "new" / "recording", manifest())
    with recording.writer() as writer:
        writer.submit(Request(Operation.FLUSH))
    opened = Recording.open(recording.directory)
    assert opened == recording
    assert opened.base is None
    with opened.log() as log:
        assert log.event_count == 1
    (recording.directory / BASE_NAME).write_bytes(b"")
    assert opened.base == recording.directory / BASE_NAME


def test_the_manifest_is_replaced_as_one_step(tmp_path: Path) -> None:
    recording = Recording.create(tmp_path, manifest())
    other = Manifest(disk_size_bytes=SIZE, details={"kernel": "6.12"})
    assert recording.with_manifest(other) == Recording.open(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [MANIFEST_NAME]


def test_an_existing_recording_is_not_overwritten(tmp_path: Path) -> None:
    Recording.create(tmp_path, manifest())
    with pytest.raises(RecordingExists, match="another directory"):
        Recording.create(tmp_path, Manifest(disk_size_bytes=512))
    assert Recording.open(tmp_path).manifest == manifest()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b'{"schema": "crashsim.recording/2", "disk_size_bytes": 512}',
        b'{"schema": "crashsim.recording/1", "disk_size_bytes": "many"}',
        b'{"schema": "crashsim.recording/1", "disk_size_bytes": 512, "steps": 3}',
        b"[" * 100_000,
    ],
)
def test_a_damaged_manifest_is_told(tmp_path: Path, content: bytes) -> None:
    (tmp_path / MANIFEST_NAME).write_bytes(content)
    with pytest.raises(RecordingUnreadable, match=MANIFEST_NAME):
        Recording.open(tmp_path)


def test_a_missing_recording_is_told(tmp_path: Path) -> None:
    with pytest.raises(RecordingUnreadable, match="No such file"):
        Recording.open(tmp_path)


def test_a_log_of_another_disk_is_told(tmp_path: Path) -> None:
    recording = Recording.create(tmp_path, manifest())
    recording.writer().close()
    path = tmp_path / MANIFEST_NAME
    path.write_text(json.dumps({"schema": "crashsim.recording/1", "disk_size_bytes": 512}))
    with pytest.raises(RecordingUnreadable, match="1048576"):
        Recording.open(tmp_path).log()
