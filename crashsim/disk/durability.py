"""When a write can no longer be lost."""

import numpy as np
import numpy.typing as npt

from crashsim.disk.log import NEVER, Log
from crashsim.disk.profile import DEFAULT_PROFILE, DeviceProfile
from crashsim.disk.request import Operation

Int64s = npt.NDArray[np.int64]


def durable_positions(log: Log, profile: DeviceProfile = DEFAULT_PROFILE) -> npt.NDArray[np.int64]:
    """From which cut on each request is durable.

    :returns: one value a request: it is durable at cut p if and only if value <= p. NEVER for a
        FLUSH, for a request that failed or did not complete, and for one that nothing made durable.

    A request is durable once it completed as FUA, or once a FLUSH that was submitted after its
    completion has completed (Linux Documentation/block/writeback_cache_control.rst; NVMe base
    specification, Flush command). A request in flight when the FLUSH arrives is not covered by it.
    A FLUSH that failed covers nothing, and one of another disk covers nothing of this one: each
    device has a cache of its own.
    """
    requests = log.requests
    done = (requests.completed_at != NEVER) & (requests.error == 0)
    is_flush = requests.operation == Operation.FLUSH
    result = np.full(len(requests), NEVER, np.int64)
    disk = requests.offset_bytes // log.disk_bytes
    for number in range(log.disks):
        here = done & (disk == number)
        written = np.flatnonzero(here & ~is_flush)
        result[written] = _durable_from(log, written, np.flatnonzero(here & is_flush), profile)
    return result


def _durable_from(
    log: Log, written: Int64s, flushes: Int64s, profile: DeviceProfile
) -> npt.NDArray[np.int64]:
    """The same for requests of one disk that have completed, all without error.

    :param written: their numbers.
    :param flushes: those of the disk's FLUSHes.
    """
    requests = log.requests
    completed_at = requests.completed_at[written]
    # Requests are numbered as they were submitted, so the flushes are in order of submission.
    # A later flush may end before an earlier one: the first end of all from here on counts.
    first_end = np.append(requests.completed_at[flushes], NEVER - 1)
    first_end = np.minimum.accumulate(first_end[::-1])[::-1]
    next_flush = np.searchsorted(requests.submitted_at[flushes], completed_at, side="right")
    durable_from = first_end[next_flush] + 1
    promised = requests.fua[written] | (not profile.volatile_cache)
    durable_from[promised] = completed_at[promised] + 1
    return durable_from


def pending(
    log: Log, cut: int, durable: npt.NDArray[np.int64] | None = None
) -> npt.NDArray[np.int64]:
    """The numbers of the requests that a power cut at `cut` may lose, ascending.

    :param durable: what `durable_positions` returned, to save its computation.
    """
    if durable is None:
        durable = durable_positions(log)
    submitted = log.submitted_before(cut)
    may_be_lost = (durable[:submitted] > cut) & log.requests.changes_media[:submitted]
    return np.flatnonzero(may_be_lost)
