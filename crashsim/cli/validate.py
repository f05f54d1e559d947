"""`crashsim validate`: is this fsync method safe, where, and what does it cost?"""

import time
from pathlib import Path
from typing import Annotated

import typer

from crashsim.campaigns.matrix import Cell, run_matrix
from crashsim.campaigns.methods import Method, find_method
from crashsim.campaigns.necessity import necessity as needed_in_model
from crashsim.campaigns.options import Progress, RunOptions
from crashsim.campaigns.results import RunResult
from crashsim.campaigns.run import prepare_machine
from crashsim.campaigns.targets import CommandChoice, choose_target
from crashsim.campaigns.validate import (
    MODELS_OF_FILESYSTEMS,
    POSIX,
    ModelOptions,
    validate_in_model,
    with_runs,
)
from crashsim.cli.arguments import (
    DEFAULT_OUT,
    EXIT_VIOLATION,
    FsOption,
    JobsOption,
    JsonOption,
    MachineOption,
    OutOption,
    SeedOption,
)
from crashsim.cli.output import stderr, stdout, watching, write_json
from crashsim.errors import UsageError
from crashsim.faults.disturbances import parse_disturbances
from crashsim.machines.filesystems import parse_filesystem
from crashsim.report.necessity import necessity_markdown, render_necessity
from crashsim.report.publish import publish
from crashsim.report.validation import render_validation, validation_markdown
from crashsim.workloads.registry import TargetOptions

SEQUENCES = ("default", "packs")
SEQUENCES_IN_FULL = ("default", "packs", "stash", "gc", "refs")
STATES = 150
STATES_IN_FULL = 500


def validate(
    location: Annotated[
        str | None, typer.Argument(metavar="[MODULE:CLASS]", help="A method of your own.")
    ] = None,
    method: Annotated[
        str | None, typer.Option(metavar="NAME", help="An installed method instead.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="The model alone; seconds.")] = False,
    full: Annotated[
        bool, typer.Option("--full", help="Longer sequences, more states, more workloads.")
    ] = False,
    necessity: Annotated[
        bool,
        typer.Option("--necessity", help="Take each sync of it away, in the model, and tell."),
    ] = False,
    fs: FsOption = None,
    machine: MachineOption = "auto",
    seed: SeedOption = 0,
    jobs: JobsOption = 2,
    markdown: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the table as Markdown.")
    ] = None,
    out: OutOption = DEFAULT_OUT,
    json_file: JsonOption = None,
) -> int:
    """Hold a fsync method against its claims: in the model, then on real kernels.

    Exits 1 when a crash state breaks a property that the method claims for that filesystem; with
    --necessity, when it makes a sync of which no crash shows the need.

    Examples:

      crashsim validate --method batch --quick

      crashsim validate my_methods:OneFlush --fs ext4 --fs btrfs
    """
    if (location is None) == (method is None):
        raise UsageError("validate takes one of MODULE:CLASS and --method NAME")
    if quick and full:
        raise UsageError("give one of --quick and --full")
    chosen = find_method(location or method or "")
    filesystems = list(dict.fromkeys(fs or MODELS_OF_FILESYSTEMS))
    for name in filesystems:
        if name not in MODELS_OF_FILESYSTEMS:
            known = ", ".join(MODELS_OF_FILESYSTEMS)
            raise UsageError(f"no persistence model for --fs {name}: there are {known}")
    if necessity:
        return _necessity(chosen, filesystems, seed, markdown, json_file)
    started = time.perf_counter()
    options = ModelOptions(
        length=1 if quick else 2, states_limit=1_000 if quick else 300, seed=seed
    )
    with watching() as progress:
        result = validate_in_model(chosen, filesystems, options, progress)
        if not quick:
            run_options = RunOptions(
                filesystem=parse_filesystem("ext4"),
                out=out,
                disturbances=parse_disturbances(None, seed),
                machine=machine,
                states=STATES_IN_FULL if full else STATES,
                seed=seed,
                jobs=jobs,
            ).bare(out)
            workloads = SEQUENCES_IN_FULL if full else SEQUENCES
            runs = _on_real_kernels(chosen, filesystems, workloads, run_options, progress)
            result = with_runs(result, chosen, runs, time.perf_counter() - started)
    write_json(result, json_file)
    (stderr if str(json_file) == "-" else stdout()).print(render_validation(result))
    if markdown is not None:
        markdown.write_text(validation_markdown(result))
    return 0 if result.confirmed else EXIT_VIOLATION


def _necessity(
    method: Method, filesystems: list[str], seed: int, markdown: Path | None, json_file: Path | None
) -> int:
    with watching() as progress:
        result = needed_in_model(method, filesystems, ModelOptions(seed=seed), progress)
    write_json(result, json_file)
    (stderr if str(json_file) == "-" else stdout()).print(render_necessity(result))
    if markdown is not None:
        markdown.write_text(necessity_markdown(result))
    return EXIT_VIOLATION if result.unneeded else 0


def _on_real_kernels(
    method: Method,
    filesystems: list[str],
    sequences: tuple[str, ...],
    options: RunOptions,
    progress: Progress,
) -> list[RunResult]:
    cells = [
        Cell(
            choose_target(
                "impl",
                None,
                None,
                CommandChoice(),
                TargetOptions(
                    fsync="all", method=method.setting, sequence=sequence, seed=options.seed
                ),
            ),
            parse_filesystem(filesystem),
        )
        for filesystem in filesystems
        if filesystem != POSIX
        for sequence in sequences
    ]
    prepared = prepare_machine(options, None, progress)
    return run_matrix(cells, options, prepared, progress, finished=publish)
