"""`crashsim selftest`: is this harness to be trusted, on this machine and this kernel?"""

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from crashsim.campaigns.selftest import run_selftest
from crashsim.cli.arguments import (
    EXIT_INCONCLUSIVE,
    EXIT_VIOLATION,
    JobsOption,
    JsonOption,
    KernelOption,
    MachineOption,
    SeedOption,
)
from crashsim.cli.image import build_progress
from crashsim.cli.output import stdout, watching, write_json
from crashsim.machines.images.recipe import ImageSpec
from crashsim.machines.select import choose_machine
from crashsim.report.selftest import render_selftest


def selftest(
    machine: MachineOption = "auto",
    kernel: KernelOption = None,
    seed: SeedOption = 0,
    jobs: JobsOption = 2,
    keep: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep the recordings in a new directory.")
    ] = None,
    json_file: JsonOption = None,
) -> int:
    """Run programs with known mistakes, and the same without: are the first caught, and only they?

    Exits 1 when any answer is wrong: then no other answer of this harness is worth much, either.

    Example: crashsim selftest --json -
    """
    with build_progress() as building:
        chosen = choose_machine(machine, ImageSpec(kernel=kernel), progress=building)
    with tempfile.TemporaryDirectory(prefix="crashsim-selftest-") as scratch, watching() as bar:
        result = run_selftest(chosen, keep or Path(scratch), seed=seed, jobs=jobs, progress=bar)
    write_json(result, json_file)
    if str(json_file) != "-":
        stdout().print(render_selftest(result))
    if result.inconclusive:
        return EXIT_INCONCLUSIVE
    return 0 if result.passed else EXIT_VIOLATION
