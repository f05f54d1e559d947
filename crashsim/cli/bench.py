"""`crashsim bench`: what crashsim costs on this machine, as ratios within one run."""

from typing import Annotated

import typer

from crashsim.campaigns.bench_explore import bench_explore
from crashsim.campaigns.bench_machine import bench_machine
from crashsim.campaigns.bench_memory import bench_memory
from crashsim.campaigns.bench_record import bench_record
from crashsim.cli.arguments import JsonOption
from crashsim.cli.output import stdout, watching, write_json
from crashsim.report.benchmarks import render_benchmark

bench_app = typer.Typer(help="Measure crashsim on this machine.", no_args_is_help=True)

RoundsOption = Annotated[int, typer.Option(min=1, max=100, help="How often each side is measured.")]


@bench_app.command()
def machine(rounds: RoundsOption = 3, json_file: JsonOption = None) -> None:
    """A guest from the boot snapshot against a cold boot.

    Example: crashsim bench machine --rounds 5
    """
    with watching() as progress:
        result = bench_machine(rounds, progress)
    write_json(result, json_file)
    if str(json_file) != "-":
        stdout().print(render_benchmark(result))


@bench_app.command()
def record(rounds: RoundsOption = 3, json_file: JsonOption = None) -> None:
    """The git workload on the crash disk against a plain raw disk of QEMU.

    Example: crashsim bench record
    """
    with watching() as progress:
        result = bench_record(rounds, progress)
    write_json(result, json_file)
    if str(json_file) != "-":
        stdout().print(render_benchmark(result))


@bench_app.command()
def explore(
    states: Annotated[int, typer.Option(min=10)] = 200, json_file: JsonOption = None
) -> None:
    """States decided per second, against rebuilding, mounting and git fsck for each; by log length.

    Example: crashsim bench explore --states 300
    """
    with watching() as progress:
        result = bench_explore(states, progress)
    write_json(result, json_file)
    if str(json_file) != "-":
        stdout().print(render_benchmark(result))


@bench_app.command()
def memory(
    gibibytes: Annotated[float, typer.Option(min=0.1, help="Size of the recording.")] = 4.0,
    json_file: JsonOption = None,
) -> None:
    """Resident memory of this process for a large recording and its exploration.

    Example: crashsim bench memory --gibibytes 4
    """
    with watching() as progress:
        result = bench_memory(gibibytes, progress)
    write_json(result, json_file)
    if str(json_file) != "-":
        stdout().print(render_benchmark(result))
