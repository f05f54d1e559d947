"""What a log holds once it is read: its requests, a column each, and its marks."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from crashsim.disk.log_format import NEVER
from crashsim.disk.request import Operation


@dataclass(frozen=True, slots=True)
class LogMark:
    """A mark.

    :ivar position: its place among the events.
    :ivar time_ns: monotonic clock of the recording host.
    """

    position: int
    text: str
    time_ns: int


@dataclass(frozen=True, slots=True)
class Requests:
    """Every request of a log, one contiguous array per column, indexed by request number.

    `requests["offset_bytes"]` and `requests.offset_bytes` are the same array; none is writable.

    :ivar operation: values of `Operation`, never READ.
    :ivar data_offset: where the payload is in data.bin; meaningless unless it is a WRITE.
    :ivar submitted_at: position of the SUBMIT event; strictly increasing.
    :ivar completed_at: position of the COMPLETE event, or NEVER.
    :ivar error: errno of a request that failed; 0 for the others and those that never completed.
    :ivar submitted_ns: monotonic clock of the recording host.
    :ivar completed_ns: the same for the reply, or NEVER.
    """

    operation: npt.NDArray[np.uint8]
    fua: npt.NDArray[np.bool_]
    offset_bytes: npt.NDArray[np.int64]
    length_bytes: npt.NDArray[np.int64]
    data_offset: npt.NDArray[np.int64]
    submitted_at: npt.NDArray[np.int64]
    completed_at: npt.NDArray[np.int64]
    error: npt.NDArray[np.int16]
    submitted_ns: npt.NDArray[np.int64]
    completed_ns: npt.NDArray[np.int64]

    def __len__(self) -> int:
        """How many requests there are."""
        return len(self.operation)

    def __getitem__(self, column: str) -> npt.NDArray[Any]:
        """A column by its name."""
        array: npt.NDArray[Any] = getattr(self, column)
        return array

    @property
    def changes_media(self) -> npt.NDArray[np.bool_]:
        """Which requests are a WRITE, WRITE_ZEROES or TRIM."""
        result: npt.NDArray[np.bool_] = self.operation != Operation.FLUSH
        return result


class LogParts(NamedTuple):
    """What `LogReader` found; the fields are those of `Log`."""

    size_bytes: int
    event_count: int
    requests: Requests
    marks: tuple[LogMark, ...]
    truncated: str
    disks: int


def empty_requests(count: int) -> Requests:
    """Columns for so many requests, none of which is there yet."""

    def column(dtype: type[np.generic]) -> npt.NDArray[Any]:
        return np.zeros(count, dtype)

    return Requests(
        operation=column(np.uint8),
        fua=column(np.bool_),
        offset_bytes=column(np.int64),
        length_bytes=column(np.int64),
        data_offset=column(np.int64),
        submitted_at=column(np.int64),
        completed_at=np.full(count, NEVER, np.int64),
        error=column(np.int16),
        submitted_ns=column(np.int64),
        completed_ns=np.full(count, NEVER, np.int64),
    )
