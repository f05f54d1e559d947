"""The log round a crash as a table: what the picture shows, for those who cannot see it."""

from collections.abc import Iterator
from dataclasses import dataclass

from crashsim.disk.request import Operation
from crashsim.report.chart import Chart, ChartFlush, ChartWrite, Fate

_ROWS_LIMIT = 150

FATE_WORDS = {
    Fate.DURABLE: "durable",
    Fate.KEPT: "survived",
    Fate.DROPPED: "lost",
    Fate.TORN: "torn",
    Fate.LATE: "after the cut",
}
_OPERATION_WORDS = {
    Operation.WRITE: "write",
    Operation.WRITE_ZEROES: "zeroes",
    Operation.TRIM: "discard",
}


@dataclass(frozen=True, slots=True)
class ExcerptRow:
    """One line: `kind` is `write`, `flush`, `mark` or `crash`; a write comes along whole."""

    position: int
    kind: str
    words: str
    write: ChartWrite | None = None


def excerpt(chart: Chart) -> list[ExcerptRow]:
    """The chart's focus in the order of the log; of too many rows those nearest to the crash.

    Lost and torn writes are there wherever they are.
    """
    start, end = chart.focus
    inside = [row for row in _rows(chart) if start <= row.position <= end]
    before = [row for row in inside if row.position < chart.cut][-_ROWS_LIMIT:]
    after = [row for row in inside if row.position >= chart.cut][: _ROWS_LIMIT // 5]
    shown = {row.write.number for row in before if row.write is not None}
    lost = [_write_row(write) for write in chart.lost if write.number not in shown]
    crash = ExcerptRow(chart.cut, "crash", "the power is cut here")
    return [*sorted([*lost, *before], key=lambda row: row.position), crash, *after]


def _rows(chart: Chart) -> Iterator[ExcerptRow]:
    rows = [_write_row(write) for write in chart.writes]
    rows += [ExcerptRow(mark.position, "mark", mark.text) for mark in chart.marks]
    rows += [
        ExcerptRow(flush.submitted_at, "flush", _flush_in_words(chart, flush))
        for flush in chart.flushes
    ]
    yield from sorted(rows, key=lambda row: row.position)


def _write_row(write: ChartWrite) -> ExcerptRow:
    kind = f"{_OPERATION_WORDS[write.operation]} {write.number:,}{' (FUA)' if write.fua else ''}"
    words = f"{kind}: {write.what}" if write.what else kind
    return ExcerptRow(write.submitted_at, "write", words, write)


def _flush_in_words(chart: Chart, flush: ChartFlush) -> str:
    if flush.error:
        return f"flush {flush.number:,} failed: it promises nothing"
    if flush.completed_at is None:
        return f"flush {flush.number:,} was never answered: it promises nothing"
    if flush.submitted_at < chart.cut <= flush.completed_at:
        return f"flush {flush.number:,} was not answered before the cut: it promises nothing"
    return f"flush {flush.number:,}, answered at event {flush.completed_at:,}"
