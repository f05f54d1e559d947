"""A chart as the JSON that the page's script draws: columns, to be small with many writes."""

from typing import Any

from crashsim.report.chart import Chart, Fate

_FATES = tuple(Fate)


def chart_json(chart: Chart) -> dict[str, Any]:
    """Plain lists and numbers; -1 where there is no position or no text."""
    strings: dict[str, int] = {}
    writes, flushes = chart.writes, chart.flushes
    return {
        "cut": chart.cut,
        "end": max(1, chart.end),
        "focus": list(chart.focus),
        "fates": [fate.value for fate in _FATES],
        "writes": {
            "number": [write.number for write in writes],
            "operation": [int(write.operation) for write in writes],
            "fua": [int(write.fua) for write in writes],
            "offset": [write.offset_bytes for write in writes],
            "length": [write.length_bytes for write in writes],
            "submit": [write.submitted_at for write in writes],
            "complete": [_or_minus_one(write.completed_at) for write in writes],
            "durable": [_or_minus_one(write.durable_at) for write in writes],
            "error": [write.error for write in writes],
            "before": [round(write.before_crash_ms, 3) for write in writes],
            "fate": [_FATES.index(write.fate) for write in writes],
            "what": [
                strings.setdefault(write.what, len(strings)) if write.what else -1
                for write in writes
            ],
            "needed": [int(write.needed) for write in writes],
            "kept": {
                str(index): ", ".join(map(str, write.kept_units))
                for index, write in enumerate(writes)
                if write.kept_units
            },
        },
        "strings": list(strings),
        "flushes": {
            "number": [flush.number for flush in flushes],
            "submit": [flush.submitted_at for flush in flushes],
            "complete": [_or_minus_one(flush.completed_at) for flush in flushes],
            "error": [flush.error for flush in flushes],
        },
        "marks": {
            "position": [mark.position for mark in chart.marks],
            "kind": [mark.kind.value for mark in chart.marks],
            "text": [mark.text for mark in chart.marks],
        },
        "overview": {
            "step": chart.overview_step,
            "columns": [list(column) for column in zip(*chart.overview.values(), strict=True)],
        },
    }


def _or_minus_one(position: int | None) -> int:
    return -1 if position is None else position
