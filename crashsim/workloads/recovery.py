"""What a program does after a power cut, as a workload: it goes on with the disk that is there."""

from collections.abc import Sequence
from dataclasses import replace

from crashsim.disk.log import Log
from crashsim.workloads.command import CommandWorkload
from crashsim.workloads.git import GitWorkload, as_step
from crashsim.workloads.git_steps import GitStep
from crashsim.workloads.impl import run_by_the_store
from crashsim.workloads.marks import step_name
from crashsim.workloads.protocol import Step

RECOVER = "recover"
"""The step of a command's own recovery."""

_GC = GitStep("gc", "git gc -q --prune=now")
"""Everything is packed anew, and what no reference or reflog holds is removed at once: the most
that a repository goes through at the hands of git itself."""


def git_recovery(workload: GitWorkload) -> GitWorkload:
    """`gc`, run by the same program with the same configuration."""
    gc = as_step(_GC)
    by_the_store = run_by_the_store(gc, workload.options.method)
    step = by_the_store if workload.program else gc
    return replace(
        workload, sequence="recovery", steps=(step,), files=0, staged={}, has_upstream=False
    )


def command_recovery(workload: CommandWorkload, recover: str | None) -> CommandWorkload:
    """The command's own recovery; without one the mount is all of it.

    :param recover: a string for the guest's `sh -c`, run in the filesystem's root.
    """
    steps: Sequence[Step] = ()
    if recover is not None:
        steps = (Step(RECOVER, ("sh", "-c", recover)),)
    return replace(workload, setup=None, steps=steps)


def mount_end(log: Log) -> int | None:
    """Where the program's own recovery begins in a recording of a recovery; None where the mount is
    all of it.

    A mount sends little, and gc, with all that goes on beside it, much: without more ado few
    nested states would be of the mount.
    """
    steps = [mark.position for mark in log.marks if step_name(mark.text) is not None]
    return steps[1] if len(steps) > 1 else None
