"""`crashsim matrix`: one run for each combination of filesystem and configuration."""

from pathlib import Path
from typing import Annotated

import typer

from crashsim.campaigns.matrix import Cell, run_matrix
from crashsim.campaigns.options import RunOptions
from crashsim.campaigns.results import MatrixResult
from crashsim.campaigns.run import prepare_machine
from crashsim.campaigns.targets import CommandChoice, choose_target
from crashsim.cli.arguments import (
    DEFAULT_OUT,
    EXIT_INCONCLUSIVE,
    EXIT_VIOLATION,
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
    read_states,
)
from crashsim.cli.output import stdout, watching, write_json
from crashsim.faults.disturbances import parse_disturbances
from crashsim.machines.filesystems import parse_filesystem
from crashsim.report.markdown import matrix_markdown
from crashsim.report.publish import publish, publish_matrix
from crashsim.report.tables import render_matrix, render_matrix_svg
from crashsim.workloads.registry import TargetOptions


def matrix(
    target: Annotated[str, typer.Option(help="A built-in workload: git.")] = "git",
    fs: FsOption = None,
    fsync: Annotated[
        list[str] | None, typer.Option(metavar="COMPONENTS", help="core.fsync; repeatable.")
    ] = None,
    method: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="core.fsyncMethod; repeatable.")
    ] = None,
    sequence: Annotated[str, typer.Option(help="Which steps of the target.")] = "default",
    disturb: DisturbOption = None,
    machine: MachineOption = "auto",
    kernel: KernelOption = None,
    states: StatesOption = "100",
    time_limit: TimeLimitOption = None,
    seed: SeedOption = 0,
    jobs: JobsOption = 2,
    svg: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also draw the table as SVG.")
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the table as Markdown.")
    ] = None,
    out: OutOption = DEFAULT_OUT,
    json_file: JsonOption = None,
) -> int:
    """Run every combination of --fs, --fsync and --method and print what each loses and costs.

    Exits 1 when any cell shows a violation, as `crashsim run` does.

    Example:

      crashsim matrix --fs ext4 --fs btrfs --fsync none --fsync all --method fsync --method batch
    """
    options = RunOptions(
        filesystem=parse_filesystem("ext4"),
        out=out,
        disturbances=parse_disturbances(disturb, seed),
        machine=machine,
        kernel=kernel,
        states=read_states(states),
        time_limit_seconds=time_limit,
        seed=seed,
        jobs=jobs,
        shrink=False,
        explain=False,
    )
    cells = [
        Cell(
            choose_target(
                target,
                None,
                None,
                CommandChoice(),
                TargetOptions(fsync=components, method=name, sequence=sequence, seed=seed),
            ),
            parse_filesystem(filesystem),
        )
        for filesystem in fs or ["ext4"]
        for components in fsync or ["default"]
        for name in method or ["default"]
    ]
    with watching() as progress:
        prepared = prepare_machine(options, None, progress)
        results = run_matrix(cells, options, prepared, progress, finished=publish)
    result = MatrixResult(results)
    publish_matrix(result, out)
    write_json(result, json_file)
    if str(json_file) != "-":
        stdout().print(render_matrix(result))
    if svg is not None:
        svg.write_text(render_matrix_svg(result))
    if markdown is not None:
        markdown.write_text(matrix_markdown(result))
    if any(counts.violations for cell in results for counts in cell.properties.values()):
        return EXIT_VIOLATION
    return EXIT_INCONCLUSIVE if any(cell.inconclusive for cell in results) else 0
