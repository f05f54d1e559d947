"""What fsync(2) is worth after it has failed, for a terminal."""

from rich.console import ConsoleRenderable
from rich.table import Table

from crashsim.campaigns.failed_syncs import FailedSyncProbe, FailedSyncResult

_TOLD = ("fsync", "fsync again", "reopened fsync", "read", "read without cache", "rewrite")


def render_failed_syncs(result: FailedSyncResult) -> ConsoleRenderable:
    """A row for each probe.

    `anew` is the file that was written next, after the reboot; `lost` is said where a sync returned
    0 after one had failed, and the data is gone.
    """
    heads = ("fs", "fails", "shape", *_TOLD, "after a reboot", "anew", "")
    table = Table(box=None, header_style="bold", pad_edge=False)
    for head in heads:
        table.add_column(head, overflow="fold")
    for probe in result.probes:
        table.add_row(*_row(probe))
    return table


def _row(probe: FailedSyncProbe) -> tuple[str, ...]:
    told = (probe.told[name] for name in _TOLD)
    lost = "lost" if probe.is_silent else ""
    after = (probe.after_reboot, probe.anew_after_reboot)
    return (probe.fs, probe.fault, probe.shape, *told, *after, lost)
