"""`crashsim validate`: is this fsync method safe, where, and what does it cost?"""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from crashsim.campaigns.every_method import EVERY
from crashsim.campaigns.failing_operations import fail_every_call
from crashsim.campaigns.methods import Method, find_method
from crashsim.campaigns.necessity import STATES_PER_RUN
from crashsim.campaigns.necessity import necessity as needed_in_model
from crashsim.campaigns.options import Progress, RunOptions
from crashsim.campaigns.results import RunResult
from crashsim.campaigns.run import prepare_machine
from crashsim.campaigns.validate import (
    MODELS_OF_FILESYSTEMS,
    ModelOptions,
    filesystems_of,
    validate_in_model,
    validate_on_kernels,
    with_runs,
)
from crashsim.cli.arguments import (
    DEFAULT_OUT,
    EXIT_VIOLATION,
    DisturbOption,
    FsOption,
    JobsOption,
    JsonOption,
    MachineOption,
    OutOption,
    SeedOption,
    read_states,
)
from crashsim.cli.output import stderr, stdout, watching, write_json
from crashsim.cli.validate_all import necessity_of_all, validate_all
from crashsim.errors import UsageError
from crashsim.faults.disturbances import parse_disturbances
from crashsim.machines.filesystems import parse_filesystem
from crashsim.report.failing_calls import render_failing_calls
from crashsim.report.necessity import necessity_markdown, render_necessity
from crashsim.report.publish import publish
from crashsim.report.validation import render_validation, validation_markdown
from crashsim.workloads import git_steps

SEQUENCES = ("each", "packs")
SEQUENCES_IN_FULL = ("each", "packs", "stash", "gc", "many-refs", "default", "refs")
"""The last two set HEAD: they are for methods whose claims cover it."""
STATES = "150"
STATES_IN_FULL = "560"
"""Not all of them are distinct; at least 500 are."""


def validate(
    location: Annotated[
        str | None, typer.Argument(metavar="[MODULE:CLASS]", help="A method of your own.")
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="An installed method instead; all: each of them, quick."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="The model alone; seconds.")] = False,
    full: Annotated[
        bool, typer.Option("--full", help="Longer sequences, more states, more workloads.")
    ] = False,
    length: Annotated[
        int | None,
        typer.Option(min=1, max=3, help="Operations in a row, in the model; 2, or 1 if --quick."),
    ] = None,
    necessity: Annotated[
        bool,
        typer.Option("--necessity", help="Take each sync of it away, in the model, and tell."),
    ] = False,
    errors: Annotated[
        bool,
        typer.Option("--errors", help="Make every system call fail in turn, in the model."),
    ] = False,
    split: Annotated[
        str | None,
        typer.Option(
            metavar="DIRECTORY",
            help="In the model, with this directory of .git (objects) on a disk of its own.",
        ),
    ] = None,
    fs: FsOption = None,
    sequence: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only these steps on real kernels: commit, refs, …"),
    ] = None,
    states: Annotated[
        str | None,
        typer.Option(metavar="N|all", help="Crash states of each recording on a real kernel."),
    ] = None,
    disturb: DisturbOption = None,
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

    There the first sequence runs twice, disturbed and left alone, unless --disturb says which.
    Exits 1 when a crash state breaks a property that the method claims for that filesystem; with
    --necessity, when it makes a sync of which no crash shows the need; with --errors, when an error
    is not told, something is lost by it, or a sync is believed that came after a failed one.

    Examples:

      crashsim validate --method batch --quick

      crashsim validate my_methods:OneFlush --fs ext4 --fs btrfs

      crashsim validate --method all --length 2

      crashsim validate --method all --necessity --markdown necessity.md

      crashsim validate --method all --split objects
    """
    if (location is None) == (method is None):
        raise UsageError("validate takes one of MODULE:CLASS and --method NAME")
    quick = quick or _is_of_model(split, necessity or errors)
    if method == EVERY:
        _refuse_kernels(full or sequence or states or disturb)
        _with_models(fs)
        shared = ["--seed", str(seed), *(word for name in fs or () for word in ("--fs", name))]
        if necessity:
            return necessity_of_all(["--necessity", *shared], jobs, markdown, json_file)
        in_model = ["--quick", "--length", str(length or 2), *shared, *_split(split)]
        return validate_all(in_model, jobs, markdown, json_file)
    if quick and (full or sequence or states or disturb):
        raise UsageError(
            "--quick and --split are about the model alone: give them without --full, --sequence, "
            "--states, --disturb"
        )
    chosen = find_method(location or method or "")
    filesystems = _with_models(fs) or filesystems_of(chosen)
    sequences = tuple(sequence or _sequences(chosen, full))
    for name in sequences:
        git_steps.sequence(name)
    states_of_each = read_states(states or (STATES_IN_FULL if full else STATES))
    if errors:
        return _errors(chosen, json_file)
    if necessity:
        return _necessity(chosen, filesystems, seed, markdown, json_file)
    started = time.perf_counter()
    operations = length or (1 if quick else 2)
    options = ModelOptions(
        length=operations,
        states_limit=1_000 if operations == 1 else 300,
        seed=seed,
        split=split or "",
    )
    with watching() as progress:
        result = validate_in_model(chosen, filesystems, options, progress)
        if not quick:
            run_options = RunOptions(
                filesystem=parse_filesystem("ext4"),
                out=out,
                disturbances=parse_disturbances(disturb, seed),
                machine=machine,
                states=states_of_each,
                seed=seed,
                jobs=jobs,
            ).bare(out)
            alone_too = not disturb
            runs = _on_kernels(chosen, filesystems, sequences, run_options, alone_too, progress)
            result = with_runs(result, chosen, runs, time.perf_counter() - started)
    write_json(result, json_file)
    (stderr if str(json_file) == "-" else stdout()).print(render_validation(result))
    if markdown is not None:
        markdown.write_text(validation_markdown(result))
    return 0 if result.confirmed else EXIT_VIOLATION


def _refuse_kernels(asked_for: object) -> None:
    if asked_for:
        raise UsageError("--method all is about the model: kernels take one method at a time")


def _split(directory: str | None) -> Sequence[str]:
    return ["--split", directory] if directory else []


def _is_of_model(split: str | None, otherwise: bool) -> bool:
    """Whether it is about the model alone, since a directory is on a disk of its own."""
    if split and otherwise:
        raise UsageError(f"--split {split} goes without --necessity and --errors")
    return bool(split)


def _sequences(method: Method, full: bool) -> list[str]:
    """What is run on real kernels: of no method more than its claims are about."""
    names = SEQUENCES_IN_FULL if full else SEQUENCES
    return [name for name in names if method.covers_state or not git_steps.sets_head(name)]


def _with_models(names: Sequence[str] | None) -> list[str]:
    """The filesystems asked for. Raises UsageError where there is no model of one."""
    for name in names or ():
        if name not in MODELS_OF_FILESYSTEMS:
            known = ", ".join(MODELS_OF_FILESYSTEMS)
            raise UsageError(f"no persistence model for --fs {name}: there are {known}")
    return list(dict.fromkeys(names or ()))


def _on_kernels(
    method: Method,
    filesystems: Sequence[str],
    sequences: Sequence[str],
    options: RunOptions,
    alone_too: bool,
    progress: Progress,
) -> list[RunResult]:
    """All sequences; with `alone_too` the first once more without disturbances.

    What others sync reveals what the method does in the wrong order, and saves what it forgot.
    """
    prepared = prepare_machine(options, None, progress)
    runs = validate_on_kernels(method, filesystems, sequences, options, prepared, publish, progress)
    if alone_too:
        alone = replace(options, disturbances=())
        runs += validate_on_kernels(
            method, filesystems, sequences[:1], alone, prepared, publish, progress
        )
    return runs


def _errors(method: Method, json_file: Path | None) -> int:
    with watching() as progress:
        result = fail_every_call(method, progress)
    write_json(result, json_file)
    (stderr if str(json_file) == "-" else stdout()).print(render_failing_calls(result))
    return EXIT_VIOLATION if result.wrong else 0


def _necessity(
    method: Method, filesystems: list[str], seed: int, markdown: Path | None, json_file: Path | None
) -> int:
    with watching() as progress:
        options = ModelOptions(states_limit=STATES_PER_RUN, seed=seed)
        result = needed_in_model(method, filesystems, options, progress)
    write_json(result, json_file)
    (stderr if str(json_file) == "-" else stdout()).print(render_necessity(result))
    if markdown is not None:
        markdown.write_text(necessity_markdown(result))
    return EXIT_VIOLATION if result.unneeded or result.refuted else 0
