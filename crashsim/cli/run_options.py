"""The options of `crashsim run` that depend on one another."""

from pathlib import Path

from crashsim.campaigns.cut_at import parse_cut_at
from crashsim.campaigns.live_run import LiveOptions
from crashsim.campaigns.options import NestedOptions
from crashsim.campaigns.targets import CONTAINER_TARGET, CommandChoice, Target, choose_target
from crashsim.cli.arguments import read_states
from crashsim.errors import UsageError
from crashsim.workloads.registry import TargetOptions


def live_options(cut: str, cuts: int, cut_at: str, sequence: str) -> LiveOptions | None:
    """What `--cut live` asks for; None for `--cut replay`."""
    if cut == "live":
        return LiveOptions(cuts, parse_cut_at(cut_at), sequence)
    if cut != "replay":
        raise UsageError(f"unknown --cut {cut!r}: take replay or live")
    if cut_at != "moment":
        raise UsageError("--cut-at goes with --cut live")
    return None


def check_together(*, live: bool, fault: bool, nested: bool, again: bool) -> None:
    """Refuse ways of recording that do not go together.

    :param again: the workload is to be recorded again, with fewer steps or syncs.
    """
    if (live or fault) and again:
        raise UsageError("--shrink-steps and --necessity go with --cut replay, and without --fault")
    if live and fault:
        raise UsageError("--fault goes with --cut replay")
    if nested and (live or fault or again):
        raise UsageError(
            "--depth 2 goes with --cut replay, without --fault, --shrink-steps and --necessity"
        )


def nested_options(
    depth: str, recoveries: int, states: str, recover: str | None
) -> NestedOptions | None:
    """What `--depth 2` asks for; None for `--depth 1`."""
    if depth not in ("1", "2"):
        raise UsageError(
            f"--depth takes 1 (cut the workload) or 2 (its recoveries, too), not {depth!r}"
        )
    nested = NestedOptions(read_states(states, "--nested-states"), recoveries)
    if depth == "2":
        return nested
    if recover is not None:
        raise UsageError("--recover goes with --depth 2: it is the recovery that is cut")
    return None


def read_target(
    target: str | None,
    workload: Path | None,
    command: list[str] | None,
    choice: CommandChoice,
    options: TargetOptions,
) -> Target:
    """What is to be run: one of a target, a workload file and a command. Raises UsageError."""
    given = [
        name
        for name, value in (("--target", target), ("--workload", workload), ("a command", command))
        # Of a container, the words after -- are arguments.
        if value and not (target == CONTAINER_TARGET and value is command)
    ]
    if len(given) > 1:
        raise UsageError(
            f"give one of --target, --workload and a command, not {' and '.join(given)}"
        )
    return choose_target(target, workload, command, choice, options)
