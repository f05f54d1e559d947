"""`crashsim run`: record one workload, explore its crash states, tell what is lost."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from crashsim.campaigns.fewer_steps import FewerSteps, fewer_steps
from crashsim.campaigns.live_run import run_live
from crashsim.campaigns.needed_syncs import needed_syncs
from crashsim.campaigns.options import RunOptions
from crashsim.campaigns.results import RunResult
from crashsim.campaigns.run import run_campaign
from crashsim.campaigns.targets import CommandChoice
from crashsim.cli.arguments import (
    DEFAULT_OUT,
    EXIT_INCONCLUSIVE,
    EXIT_VIOLATION,
    DeviceOption,
    DisturbOption,
    FsOption,
    JobsOption,
    JsonOption,
    KernelOption,
    MachineOption,
    OutOption,
    SeedOption,
    StatesOption,
    TimeLimitOption,
    read_properties,
    read_states,
)
from crashsim.cli.output import stderr, stdout, watching, write_json
from crashsim.cli.run_options import check_together, live_options, nested_options, read_target
from crashsim.disk.profile import parse_profile
from crashsim.errors import UsageError
from crashsim.faults.disturbances import parse_disturbances
from crashsim.machines.filesystems import on_one_disk, parse_filesystem
from crashsim.report.faults import render_fault
from crashsim.report.live import render_live
from crashsim.report.necessity import render_necessity
from crashsim.report.publish import publish
from crashsim.report.tables import render_run
from crashsim.workloads.registry import TargetOptions
from crashsim.workloads.trouble import parse_fault

EXAMPLES = """
Examples:

  crashsim run --target git --fs ext4 --fsync none

  crashsim run --payload examples/config-writer --check config-check -- config-write --naive

  crashsim run --target git --fs btrfs --fsync all --states 1000 --json result.json

  crashsim run --target impl --fs xfs --fsync all --method paired-syncfs --cut live --cuts 200

  crashsim run --target impl --fs ext4 --fsync all --method paired-syncfs --depth 2
"""


def run(
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[-- COMMAND…]", help="A command to run instead.")
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="A built-in workload: git, impl, docker.")
    ] = None,
    workload: Annotated[
        Path | None, typer.Option(help="A TOML file with set-up, steps and check of your own.")
    ] = None,
    setup: Annotated[str | None, typer.Option(help="Runs first and is made durable.")] = None,
    check: Annotated[
        str | None,
        typer.Option(help="Runs in the recovered filesystem: 0 all holds, 1 a promise is broken."),
    ] = None,
    recover: Annotated[
        str | None,
        typer.Option(help="With --depth 2: the command's own recovery after a power cut."),
    ] = None,
    check_timeout: Annotated[
        float, typer.Option(min=0.1, help="Seconds after which a check is inconclusive.")
    ] = 20.0,
    payload: Annotated[
        Path | None,
        typer.Option(help="A directory put at /payload in the guest, its bin/ on PATH."),
    ] = None,
    image: Annotated[
        Path | None,
        typer.Option(help="--target docker: what docker save wrote, an OCI layout, or a root."),
    ] = None,
    volume: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="--target docker: what is on the crash disk."),
    ] = None,
    fs: FsOption = None,
    fsync: Annotated[
        str, typer.Option(help="core.fsync: none, default, all, or components.")
    ] = "default",
    method: Annotated[
        str, typer.Option(help="core.fsyncMethod: fsync, batch, writeout-only; impl has more.")
    ] = "default",
    sequence: Annotated[str, typer.Option(help="Which steps of the target.")] = "default",
    ref_format: Annotated[
        str, typer.Option(help="git's ref backend: files or reftable.")
    ] = "files",
    object_format: Annotated[str, typer.Option(help="git's hash: sha1 or sha256.")] = "sha1",
    property_: Annotated[
        list[str] | None,
        typer.Option("--property", metavar="NAME", help="Check only this; repeatable."),
    ] = None,
    disturb: DisturbOption = None,
    device: DeviceOption = "default",
    machine: MachineOption = "auto",
    kernel: KernelOption = None,
    states: StatesOption = "300",
    time_limit: TimeLimitOption = None,
    seed: SeedOption = 0,
    jobs: JobsOption = 2,
    engine: Annotated[str, typer.Option(help="local.")] = "local",
    prune: Annotated[bool, typer.Option(help="Decide states from what equal ones showed.")] = True,
    shrink: Annotated[bool, typer.Option(help="Make findings as small as they go.")] = True,
    shrink_steps: Annotated[
        bool, typer.Option("--shrink-steps", help="Record again with fewer steps, too.")
    ] = False,
    necessity: Annotated[
        bool, typer.Option("--necessity", help="Take each sync away and say what breaks then.")
    ] = False,
    depth: Annotated[
        str,
        typer.Option(
            metavar="1|2",
            help="2: recover crash states again (mount, then gc or --recover) and cut that, too.",
        ),
    ] = "1",
    recoveries: Annotated[
        int, typer.Option(min=1, max=10_000, help="Depth 2: how many recoveries to record.")
    ] = 8,
    nested_states: Annotated[
        str,
        typer.Option(metavar="N|all", help="Depth 2: how many crash states of those to explore."),
    ] = "200",
    cut: Annotated[
        str, typer.Option(help="replay: explore a recording; live: go on after each power cut.")
    ] = "replay",
    cuts: Annotated[
        int,
        typer.Option(min=1, max=100_000, help="Live: how many lives, if --time-limit allows them."),
    ] = 20,
    cut_at: Annotated[
        str,
        typer.Option(metavar="WHERE", help="Live: moment (seeded), mark:STEP, write:N or flush:N."),
    ] = "moment",
    fault: Annotated[
        str | None,
        typer.Option(
            metavar="WHAT",
            help="Errors meanwhile: write:N flush:N read:N (add :lasting), sectors:A-B, free:KIB.",
        ),
    ] = None,
    out: OutOption = DEFAULT_OUT,
    json_file: JsonOption = None,
) -> int:
    """Record one workload, explore its crash states and tell what is lost."""
    if engine != "local":
        raise UsageError(f"unknown engine {engine!r}: crashsim has local")
    if fs is not None and len(fs) != 1:
        raise UsageError("run takes one --fs; for several, use crashsim matrix")
    live = live_options(cut, cuts, cut_at, sequence)
    nested = nested_options(depth, recoveries, nested_states, recover)
    check_together(
        live=bool(live), fault=bool(fault), nested=bool(nested), again=shrink_steps or necessity
    )
    filesystem = parse_filesystem((fs or ["ext4"])[0])
    if live or fault:
        on_one_disk(filesystem, "--cut live" if live else "--fault")
    options = RunOptions(
        filesystem=filesystem,
        out=out,
        disturbances=parse_disturbances(disturb, seed),
        profile=parse_profile(device),
        properties=read_properties(property_),
        machine=machine,
        kernel=kernel,
        states=read_states(states),
        time_limit_seconds=time_limit,
        seed=seed,
        jobs=jobs,
        prune=prune,
        shrink=shrink,
        fault=None if fault is None else parse_fault(fault),
        measure_cost=fault is None,
        explain=fault is None,
        nested=nested,
    )
    chosen = read_target(
        target,
        workload,
        command,
        CommandChoice(
            setup=setup,
            recover=recover,
            check=check,
            check_timeout_seconds=check_timeout,
            payload=payload,
            image=image,
            volume=volume,
        ),
        TargetOptions(
            fsync=fsync,
            method=method,
            sequence=sequence if live is None else "default",
            ref_format=ref_format,
            object_format=object_format,
            seed=seed,
        ),
    )
    with watching() as progress:
        if live is None:
            outcome = run_campaign(chosen, options, progress)
        else:
            outcome = run_live(chosen, options, live, progress)
    result = publish(outcome)
    write_json(result, json_file)
    tables = stderr if str(json_file) == "-" else stdout()
    tables.print(render_run(result))
    if result.live is not None:
        tables.print(render_live(result.live))
    if result.fault is not None:
        tables.print(render_fault(result.fault))
    if shrink_steps and result.findings:
        with watching() as progress:
            fewer = fewer_steps(chosen, result.findings[0], options, progress)
        _print_fewer(fewer, tables)
    if necessity:
        with watching() as progress:
            tables.print(render_necessity(needed_syncs(chosen, result, options, progress)))
    return _exit_code(result)


run.__doc__ = f"{run.__doc__}\n{EXAMPLES}"


def _exit_code(result: RunResult) -> int:
    reboot = result.fault
    counted = [*result.properties.values()]
    if result.nested is not None:
        counted += result.nested.properties.values()
    broken = any(counts.violations for counts in counted)
    if broken or (reboot is not None and reboot.reboot):
        return EXIT_VIOLATION
    nested = result.nested is not None and result.nested.inconclusive
    open_questions = result.inconclusive or nested or (reboot is not None and reboot.inconclusive)
    return EXIT_INCONCLUSIVE if open_questions else 0


def _print_fewer(fewer: FewerSteps, tables: Console) -> None:
    names = ", ".join(step.name for step in fewer.shrunk.steps)
    sure = "" if fewer.shrunk.minimal else " (there was no time to try all)"
    tables.print(
        f"{fewer.finding.id} needs {len(fewer.shrunk.steps)} of {fewer.steps_before} steps{sure}: "
        f"{names}; {fewer.shrunk.attempts} recordings"
    )
    if fewer.outcome is not None:
        tables.print(render_run(publish(fewer.outcome)))
