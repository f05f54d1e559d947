"""What a run on a disk that fails came to, beside its crash states."""

from pathlib import Path

import msgspec
import numpy as np

from crashsim.campaigns.options import RunOptions
from crashsim.campaigns.recorded import Recorded
from crashsim.campaigns.results import FailedRequest, FaultResult, StepOutcomeResult
from crashsim.disk.log import NEVER
from crashsim.disk.recording import Recording
from crashsim.disk.state import CrashState
from crashsim.explore.deciding import Decider
from crashsim.machines.protocol import Machine
from crashsim.workloads.trouble import Fault


def fault_result(
    fault: Fault,
    options: RunOptions,
    recorded: Recorded,
    decider: Decider,
    machine: Machine,
    directory: Path,
) -> FaultResult:
    """What the workload said, and what a reboot shows.

    :param directory: of the recording.

    Raises InfrastructureError.
    """
    told = Recording.open(directory).manifest.details["trouble"]
    with recorded.recoverer(machine) as recoverer:
        verdict = decider.decide(rebooted(recorded), recoverer)
    reboot = [
        f"{each.property}: {each.rule}: {each.detail}"
        for each in verdict.violations
        if each.property in options.properties
    ]
    return FaultResult(
        fault.text,
        msgspec.convert(told["failed"], list[FailedRequest]),
        msgspec.convert(told["outcomes"], list[StepOutcomeResult]),
        told["aftermath"],
        reboot,
        verdict.inconclusive,
    )


def rebooted(recorded: Recorded) -> CrashState:
    """The disk when all was over: with every write but those that failed."""
    requests = recorded.log.requests
    failed = (requests.error != 0) & requests.changes_media & (requests.completed_at != NEVER)
    return CrashState(recorded.timeline.end, frozenset(np.flatnonzero(failed).tolist()))
