"""`crashsim litmus --failed-sync`: what fsync(2) is worth after it has failed."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from crashsim.campaigns.failed_syncs import probe_failed_syncs
from crashsim.cli.output import stderr, stdout, watching, write_json
from crashsim.machines.filesystems import Filesystem
from crashsim.machines.protocol import Machine
from crashsim.report.failed_syncs import render_failed_syncs


def failed_syncs(
    machine: Machine, filesystems: Sequence[Filesystem], json_file: Path | None
) -> int:
    """Probe, and print what was found: no filesystem promises anything here, so it is never 1."""
    with tempfile.TemporaryDirectory(prefix="crashsim-litmus-") as scratch, watching() as progress:
        result = probe_failed_syncs(machine, filesystems, Path(scratch), progress)
    write_json(result, json_file)
    (stderr if str(json_file) == "-" else stdout()).print(render_failed_syncs(result))
    return 0
