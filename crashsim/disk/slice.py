"""Cutting a recording down to what replaying one crash takes."""

import os
from pathlib import Path

import numpy as np

from crashsim.disk.base_image import copy_image
from crashsim.disk.log import Log
from crashsim.disk.log_format import (
    DATA_NAME,
    EVENTS_NAME,
    HEADER,
    RECORD_DTYPE,
    EventKind,
)
from crashsim.disk.log_writer import DISK_FULL_ERRNOS, RecordingDiskFull, RecordingFailed
from crashsim.disk.recording import BASE_NAME, Recording
from crashsim.disk.request import SECTOR_BYTES, Operation

LATER_EVENTS = 200
"""How many events after the cut are kept, so that a picture shows what was on its way."""

_COPY_BYTES = 1 << 20


def slice_recording(
    source: Path, cut: int, target: Path, *, later_events: int = LATER_EVENTS
) -> Recording:
    """Copy what matters for crash states at `cut` into the new directory `target`.

    Positions and request numbers up to the cut stay what they were, so a crash state means the same
    in both. After the cut come `later_events` more events and then every later mark: an oracle may
    ask what the step under way was going to promise. The log's own durability rules are not
    changed by what follows a cut.

    Raises what opening the source raises, RecordingDiskFull and RecordingFailed.
    """
    recording = Recording.open(source)
    with recording.log() as log:
        try:
            sliced = Recording.create(target, recording.manifest)
            _copy_events(log, min(log.event_count, cut + later_events), target)
            if recording.base is not None:
                copy_image(recording.base, target / BASE_NAME)
        except OSError as error:
            kind = RecordingDiskFull if error.errno in DISK_FULL_ERRNOS else RecordingFailed
            raise kind(f"cannot write {target}: {error.strerror}: make room") from error
    return sliced


def _copy_events(log: Log, end: int, target: Path) -> None:
    """The events before `end` and the marks after it, with their data."""
    with (log.directory / EVENTS_NAME).open("rb") as file:
        header = file.read(HEADER.size)
        records = np.frombuffer(file.read(), RECORD_DTYPE, log.event_count).copy()
    before, after = records[:end], records[end:]
    marks = after[after["kind"] == EventKind.MARK]
    data_end = _data_end(before)
    with (target / DATA_NAME).open("xb") as data:
        _copy_data(log, data_end, data.fileno())
        data.seek(data_end)
        for mark in marks:
            size = _whole_sectors(int(mark["small"]))
            content = log.read_data(int(mark["data_offset"]), size)
            mark["data_offset"] = data.tell()
            data.write(content)
    with (target / EVENTS_NAME).open("xb") as events:
        events.write(header + before.tobytes() + marks.tobytes())


def _data_end(records: np.ndarray[tuple[int], np.dtype[np.void]]) -> int:
    """How much of data.bin the records name; data is appended in the order of the events."""
    writes = (records["kind"] == EventKind.SUBMIT) & (records["operation"] == Operation.WRITE)
    holding = np.flatnonzero(writes | (records["kind"] == EventKind.MARK))
    if not len(holding):
        return 0
    last = records[holding[-1]]
    return int(last["data_offset"]) + _whole_sectors(int(last["small"]))


def _copy_data(log: Log, end: int, target: int) -> None:
    for offset in range(0, end, _COPY_BYTES):
        os.pwrite(target, log.read_data(offset, min(_COPY_BYTES, end - offset)), offset)


def _whole_sectors(length_bytes: int) -> int:
    return -(-length_bytes // SECTOR_BYTES) * SECTOR_BYTES
