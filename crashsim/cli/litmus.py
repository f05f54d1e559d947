"""`crashsim litmus`: what small sequences of system calls leave, on real filesystems."""

import tempfile
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from crashsim.campaigns.litmus import LitmusOptions, run_litmus
from crashsim.campaigns.litmus_result import LitmusResult, together
from crashsim.cli.arguments import (
    EXIT_INCONCLUSIVE,
    EXIT_VIOLATION,
    FsOption,
    JobsOption,
    JsonOption,
    KernelOption,
    MachineOption,
    SeedOption,
    StatesOption,
    read_states,
)
from crashsim.cli.failed_syncs import failed_syncs
from crashsim.cli.image import build_progress
from crashsim.cli.output import stdout, watching, write_json
from crashsim.errors import UsageError
from crashsim.machines.filesystems import on_one_disk, parse_filesystem
from crashsim.machines.images.recipe import ImageSpec
from crashsim.machines.select import choose_machine
from crashsim.report.litmus import litmus_markdown, render_litmus
from crashsim.workloads.litmus_tests import choose_tests


def litmus(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME...]", help="Only these tests.")
    ] = None,
    fs: FsOption = None,
    states: StatesOption = "24",
    seed: SeedOption = 0,
    jobs: JobsOption = 2,
    machine: MachineOption = "auto",
    kernel: KernelOption = None,
    markdown: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the tables into a page.")
    ] = None,
    keep: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep the recordings in a new directory.")
    ] = None,
    add: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Tell an earlier run's --json along; without --fs nothing new is run.",
        ),
    ] = None,
    failed_sync: Annotated[
        bool,
        typer.Option("--failed-sync", help="Instead: what is fsync worth after it has failed?"),
    ] = False,
    json_file: JsonOption = None,
) -> int:
    """Run small named tests on real filesystems and print which outcomes they had.

    --states counts for each test in each variant. Exits 1 when a filesystem shows an outcome that
    its persistence model does not allow: the model is wrong then.

    Examples:

      crashsim litmus --fs ext4 --fs btrfs replace create-two-fsync-one

      crashsim litmus --fs ext4 --fs xfs --failed-sync
    """
    tests = choose_tests(names or ())
    asked = fs or ([] if add else ["ext4"])
    filesystems = [on_one_disk(parse_filesystem(each), "a litmus test") for each in asked]
    if len({each.spelling for each in filesystems}) != len(filesystems):
        raise UsageError("the same --fs is given twice")
    if failed_sync:
        if names or add or markdown or keep:
            raise UsageError("--failed-sync goes with --fs, --machine, --kernel and --json only")
        with build_progress() as building:
            chosen = choose_machine(machine, ImageSpec(kernel=kernel), progress=building)
        return failed_syncs(chosen, filesystems, json_file)
    results = [_read(path) for path in add or ()]
    options = LitmusOptions(states=read_states(states), seed=seed, jobs=jobs)
    if filesystems:
        with build_progress() as building:
            chosen = choose_machine(machine, ImageSpec(kernel=kernel), progress=building)
        with tempfile.TemporaryDirectory(prefix="crashsim-litmus-") as scratch, watching() as bar:
            place = keep or Path(scratch)
            results.append(run_litmus(chosen, filesystems, tests, place, options, bar))
    result = together(results)
    write_json(result, json_file)
    if str(json_file) != "-":
        stdout().print(render_litmus(result))
    if markdown is not None:
        _write_markdown(result, markdown)
    if any(each.forbidden for each in result.filesystems):
        return EXIT_VIOLATION
    return EXIT_INCONCLUSIVE if any(each.inconclusive for each in result.filesystems) else 0


def _read(path: Path) -> LitmusResult:
    try:
        result = msgspec.json.decode(path.read_bytes(), type=LitmusResult)
    except (OSError, msgspec.MsgspecError) as error:
        raise UsageError(f"{path} is no result of crashsim litmus: {error}") from error
    if not result.filesystems:
        raise UsageError(f"{path} has no filesystem in it")
    return result


def _write_markdown(result: LitmusResult, page: Path) -> None:
    try:
        before = page.read_text(encoding="utf-8") if page.exists() else ""
        page.write_text(litmus_markdown(result, before), encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot write {page}: {error}") from error
