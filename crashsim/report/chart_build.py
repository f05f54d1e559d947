"""Building charts: from a log and a finding to what is drawn."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from crashsim.campaigns.results import Finding
from crashsim.disk.durability import durable_positions
from crashsim.disk.log import NEVER, Log
from crashsim.disk.profile import DEFAULT_PROFILE, DeviceProfile
from crashsim.disk.request import Operation
from crashsim.errors import UsageError
from crashsim.oracles.git.snapshot import BadPromise, decode_promise, is_promise
from crashsim.report.chart import Chart, ChartFlush, ChartMark, ChartWrite, Fate, MarkKind
from crashsim.report.reproduce import notes_by_write
from crashsim.report.words import printable, shorten
from crashsim.workloads.marks import END, START, is_reserved, step_name

WRITES_BEFORE_LIMIT = 15_000
WRITES_AFTER_LIMIT = 5_000
MARKS_LIMIT = 2_000
OVERVIEW_COLUMNS = 240
_FOCUS_EPOCHS = 2
_FOCUS_LIMIT_EVENTS = 250
_FOCUS_LEAST_EVENTS = 24
_TEXT_LIMIT = 300

Int64s = npt.NDArray[np.int64]
Codes = npt.NDArray[np.uint8]
"""One index into `tuple(Fate)` a request."""
_FATES = tuple(Fate)
_CODES = {fate: code for code, fate in enumerate(_FATES)}


class FindingMismatch(UsageError):
    """A finding names a cut or writes that its recording cannot have lost."""


def build_chart(log: Log, finding: Finding, profile: DeviceProfile = DEFAULT_PROFILE) -> Chart:
    """The chart of a finding over its own recording.

    :raises FindingMismatch: the finding cannot have come from this log.
    """
    durable_from = durable_positions(log, profile)
    fates = _fates(log, finding, durable_from)
    is_write = log.requests.changes_media
    chosen = _nearest(log, finding.cut)
    step, overview = _overview(log, fates)
    whole = len(chosen) == 0 or chosen[0] == 0
    first_position = 0 if whole else int(log.requests.submitted_at[chosen[0]])
    lost = sorted({*finding.dropped, *(torn.write for torn in finding.torn)})
    numbers = np.union1d(chosen[is_write[chosen]], np.array(lost, np.int64))
    return Chart(
        cut=finding.cut,
        end=log.event_count,
        focus=_focus(log, finding.cut, lost),
        writes=_writes(log, finding, numbers, fates, durable_from),
        flushes=_flushes(log, chosen[~is_write[chosen]]),
        marks=_marks(log, finding.cut, first_position),
        overview_step=step,
        overview=overview,
    )


def _fates(log: Log, finding: Finding, durable_from: Int64s) -> Codes:
    if not 0 <= finding.cut <= log.event_count:
        raise FindingMismatch(
            f"finding {finding.id}: its cut {finding.cut} is outside of the recording's "
            f"{log.event_count} events"
        )
    requests = log.requests
    late = requests.submitted_at >= finding.cut
    may_be_lost = requests.changes_media & ~late & (durable_from > finding.cut)
    fates = np.full(len(requests), _CODES[Fate.KEPT], np.uint8)
    fates[durable_from <= finding.cut] = _CODES[Fate.DURABLE]
    fates[late] = _CODES[Fate.LATE]
    losses = [(write, Fate.DROPPED) for write in finding.dropped]
    losses += [(torn.write, Fate.TORN) for torn in finding.torn]
    for write, fate in losses:
        if not 0 <= write < len(requests) or not may_be_lost[write]:
            raise FindingMismatch(
                f"finding {finding.id}: a power cut at event {finding.cut} of its recording "
                f"cannot lose write {write}"
            )
        fates[write] = _CODES[fate]
    return fates


def _nearest(log: Log, cut: int) -> Int64s:
    """Numbers of the requests nearest to the cut, as many as a chart holds."""
    at_cut = log.submitted_before(cut)
    first = max(0, at_cut - WRITES_BEFORE_LIMIT)
    return np.arange(first, min(len(log.requests), at_cut + WRITES_AFTER_LIMIT), dtype=np.int64)


def _writes(
    log: Log,
    finding: Finding,
    numbers: Int64s,
    fates: Codes,
    durable_from: Int64s,
) -> tuple[ChartWrite, ...]:
    requests = log.requests
    notes = notes_by_write(finding)
    kept_units = {torn.write: tuple(torn.kept_units) for torn in finding.torn}
    needed = set(finding.needed)
    cut_ns = _time_ns(log, finding.cut)
    return tuple(
        ChartWrite(
            number=number,
            operation=Operation(int(requests.operation[number])),
            fua=bool(requests.fua[number]),
            offset_bytes=int(requests.offset_bytes[number]),
            length_bytes=int(requests.length_bytes[number]),
            submitted_at=int(requests.submitted_at[number]),
            completed_at=_position(requests.completed_at[number]),
            # durable_positions gives the first cut; the event is the one just before it.
            durable_at=_position(durable_from[number], -1),
            error=int(requests.error[number]),
            before_crash_ms=(cut_ns - int(requests.submitted_ns[number])) / 1e6,
            fate=_FATES[fates[number]],
            what=shorten(printable(notes[number].what), _TEXT_LIMIT) if number in notes else "",
            needed=number in needed,
            kept_units=kept_units.get(number, ()),
        )
        for number in map(int, numbers)
    )


def _position(value: np.int64, shift: int = 0) -> int | None:
    return None if value == NEVER else int(value) + shift


def _time_ns(log: Log, cut: int) -> int:
    """When the last event before the cut happened; 0 for an empty log."""
    requests = log.requests
    submitted = requests.submitted_ns[requests.submitted_at < cut]
    completed = requests.completed_ns[requests.completed_at < cut]
    times = [mark.time_ns for mark in log.marks_before(cut)[-1:]]
    times += [int(column.max()) for column in (submitted, completed) if len(column)]
    return max(times, default=0)


def _flushes(log: Log, numbers: Int64s) -> tuple[ChartFlush, ...]:
    requests = log.requests
    return tuple(
        ChartFlush(
            number,
            int(requests.submitted_at[number]),
            _position(requests.completed_at[number]),
            int(requests.error[number]),
        )
        for number in map(int, numbers)
    )


def _marks(log: Log, cut: int, first_position: int) -> tuple[ChartMark, ...]:
    """The marks of the chart's part of the log; those nearest before the cut if there are many."""
    before = [mark for mark in log.marks if first_position <= mark.position < cut]
    after = [mark for mark in log.marks if mark.position >= cut]
    kept = [*before[-MARKS_LIMIT:], *after[: MARKS_LIMIT // 4]]
    return tuple(ChartMark(mark.position, *_mark_in_words(mark.text)) for mark in kept)


def _mark_in_words(text: str) -> tuple[MarkKind, str]:
    if text == START:
        return MarkKind.START, "the workload starts"
    if text == END:
        return MarkKind.END, "the workload has ended"
    if is_reserved(text):
        return MarkKind.STEP, shorten(printable(_step_or_text(text)), _TEXT_LIMIT)
    return MarkKind.PROMISE, shorten(printable(_promise_in_words(text)), _TEXT_LIMIT)


def _promise_in_words(text: str) -> str:
    """A promise about a whole repository by the step that made it; any other as it is."""
    if not is_promise(text):
        return text
    try:
        return f"what {decode_promise(text).step} left behind stays"
    except BadPromise:
        return text


def _step_or_text(text: str) -> str:
    """The step's name; a recording from strangers may hold a mark that only looks like one."""
    try:
        return step_name(text) or text
    except (ValueError, LookupError, RecursionError):
        return text


def _focus(log: Log, cut: int, lost: Iterable[int]) -> tuple[int, int]:
    """The last flush epochs before the cut, a bit after, and what lies not too far before it:
    the lost writes and the last mark.
    """
    requests = log.requests
    is_end = (requests.operation == Operation.FLUSH) & (requests.completed_at < cut)
    starts = requests.submitted_at[is_end]
    start = int(starts[-_FOCUS_EPOCHS]) - 2 if len(starts) >= _FOCUS_EPOCHS else 0
    start = min([start, *(int(requests.submitted_at[write]) - 2 for write in lost)])
    start = min([start, *(mark.position - 2 for mark in log.marks_before(cut)[-1:])])
    start = max(0, start, cut - _FOCUS_LIMIT_EVENTS)
    start = min(start, max(0, cut - _FOCUS_LEAST_EVENTS))
    end = min(log.event_count, cut + max(6, (cut - start) // 6))
    return start, max(end, start + 1)


def _overview(log: Log, fates: Codes) -> tuple[float, dict[Fate, tuple[int, ...]]]:
    columns = max(1, min(OVERVIEW_COLUMNS, log.event_count))
    step = max(1, log.event_count) / columns
    column = (log.requests.submitted_at / step).astype(np.int64)
    is_write = log.requests.changes_media
    overview = {}
    for fate, code in _CODES.items():
        chosen = column[is_write & (fates == code)]
        overview[fate] = tuple(np.bincount(chosen, minlength=columns).tolist())
    return step, overview
