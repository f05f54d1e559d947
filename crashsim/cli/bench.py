"""`crashsim bench`: what crashsim costs on this machine, as ratios within one run."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from crashsim.campaigns.bench_counts import bench_counts
from crashsim.campaigns.bench_explore import bench_explore
from crashsim.campaigns.bench_finding import bench_finding
from crashsim.campaigns.bench_length import bench_length
from crashsim.campaigns.bench_machine import bench_machine
from crashsim.campaigns.bench_memory import bench_memory
from crashsim.campaigns.bench_record import bench_record
from crashsim.campaigns.bench_store import bench_store
from crashsim.campaigns.benchmark import Benchmark
from crashsim.campaigns.options import Progress
from crashsim.cli.arguments import JsonOption
from crashsim.cli.output import stdout, watching, write_json
from crashsim.disk.profile import parse_profile
from crashsim.machines.filesystems import Filesystem, on_one_disk, parse_filesystem
from crashsim.model.bench import measure as model_figures
from crashsim.model.bench import text as model_lines
from crashsim.report.benchmarks import render_benchmark
from crashsim.workloads.store_operations import StoreSize

bench_app = typer.Typer(help="Measure crashsim on this machine.", no_args_is_help=True)

RoundsOption = Annotated[int, typer.Option(min=1, max=100, help="How often each side is measured.")]
FsOption = Annotated[str, typer.Option("--fs", metavar="FS", help="ext4, xfs, btrfs or f2fs.")]
DirectoryOption = Annotated[
    Path | None,
    typer.Option(
        "--directory",
        metavar="DIR",
        help="Where recordings and disks go meanwhile; on a tmpfs, no disk of the host takes part.",
    ),
]


def _filesystem(fs: str) -> Filesystem:
    return on_one_disk(parse_filesystem(fs), "bench")


def _show(measure: Callable[[Progress], Benchmark], json_file: Path | None) -> None:
    with watching() as progress:
        result = measure(progress)
    write_json(result, json_file)
    if str(json_file) != "-":
        stdout().print(render_benchmark(result))


@bench_app.command()
def machine(rounds: RoundsOption = 3, json_file: JsonOption = None) -> None:
    """A guest from the boot snapshot against a cold boot.

    Example: crashsim bench machine --rounds 5
    """
    _show(lambda progress: bench_machine(rounds, progress), json_file)


@bench_app.command()
def record(
    rounds: RoundsOption = 3,
    fs: FsOption = "ext4",
    fsync: Annotated[str, typer.Option(help="git's core.fsync.")] = "default",
    directory: DirectoryOption = None,
    json_file: JsonOption = None,
) -> None:
    """The git workload on the crash disk against a plain raw disk of QEMU.

    Example: crashsim bench record --rounds 5 --directory /dev/shm
    """
    filesystem = _filesystem(fs)
    _show(lambda progress: bench_record(rounds, filesystem, fsync, directory, progress), json_file)


@bench_app.command()
def explore(
    states: Annotated[int, typer.Option(min=1, help="How many states are decided.")] = 1000,
    batch: Annotated[
        int, typer.Option(min=1, help="How many for each one that is decided the usual way.")
    ] = 50,
    jobs: Annotated[int, typer.Option(min=1, help="How many guests, as `crashsim run` has.")] = 2,
    fs: FsOption = "ext4",
    directory: DirectoryOption = None,
    json_file: JsonOption = None,
) -> None:
    """States decided a second, against rebuilding, mounting and git fsck for each.

    Example: crashsim bench explore --states 300 --batch 20
    """
    filesystem = _filesystem(fs)
    _show(
        lambda progress: bench_explore(states, batch, jobs, filesystem, directory, progress),
        json_file,
    )


@bench_app.command()
def length(
    rewrites: Annotated[int, typer.Option(min=1, help="Of a file, in the shortest log.")] = 400,
    states: Annotated[int, typer.Option(min=1, help="How many of each log.")] = 40,
    fs: FsOption = "ext4",
    directory: DirectoryOption = None,
    json_file: JsonOption = None,
) -> None:
    """The time that deciding a state takes in logs of 1, 4 and 16 times a length.

    Example: crashsim bench length --rewrites 100
    """
    filesystem = _filesystem(fs)
    _show(
        lambda progress: bench_length(rewrites, states, filesystem, directory, progress), json_file
    )


@bench_app.command()
def memory(
    gibibytes: Annotated[float, typer.Option(min=0.1, help="Size of the recording.")] = 4.0,
    states: Annotated[int, typer.Option(min=1, help="How many states are explored.")] = 60,
    directory: DirectoryOption = None,
    json_file: JsonOption = None,
) -> None:
    """Resident memory of this process for a large recording and its exploration.

    Example: crashsim bench memory --gibibytes 4
    """
    _show(lambda progress: bench_memory(gibibytes, states, directory, progress), json_file)


@bench_app.command()
def finding(
    rounds: RoundsOption = 1,
    example: Annotated[Path, typer.Option(help="examples/config-writer of the source.")] = Path(
        "examples/config-writer"
    ),
    fs: FsOption = "ext4",
    json_file: JsonOption = None,
) -> None:
    """The time from `crashsim run` to a shrunk finding, on an image in the cache.

    Example: crashsim bench finding --rounds 3
    """
    filesystem = _filesystem(fs)
    _show(lambda progress: bench_finding(rounds, example, filesystem, progress), json_file)


@bench_app.command()
def counts(
    objects: Annotated[int, typer.Option(min=10, help="In the packs of a midx repack.")] = 2_000,
    references: Annotated[int, typer.Option(min=1, help="In a reftable stack.")] = 10_000,
    files: Annotated[int, typer.Option(min=1, help="Added by one update-index.")] = 500,
    json_file: JsonOption = None,
) -> None:
    """System calls of the reference store, with and without what the seeds proposed.

    Example: crashsim bench counts --objects 4000
    """
    _show(lambda progress: bench_counts(objects, references, files, progress), json_file)


@bench_app.command()
def store(
    rounds: RoundsOption = 3,
    files: Annotated[int, typer.Option(min=10, help="Added and committed.")] = 500,
    objects: Annotated[int, typer.Option(min=3, help="Unpacked.")] = 500,
    references: Annotated[int, typer.Option(min=1, help="Created at once.")] = 10_000,
    device: Annotated[
        str, typer.Option(help="The profile whose latency the slow crash disk has.")
    ] = "hdd",
    fs: FsOption = "ext4",
    directory: DirectoryOption = None,
    json_file: JsonOption = None,
) -> None:
    """The reference store against real git and dulwich: on tmpfs, and on two crash disks.

    Example: crashsim bench store --rounds 5 --device sata-ssd
    """
    size, profile = StoreSize(files, objects, references), parse_profile(device)
    filesystem = _filesystem(fs)
    _show(
        lambda progress: bench_store(size, rounds, filesystem, profile, directory, progress),
        json_file,
    )


@bench_app.command()
def model(
    states: Annotated[int, typer.Option(min=1, help="Of each persistence model.")] = 20_000,
) -> None:
    """Crash states that each persistence model decides a second, on one processor.

    Example: crashsim bench model --states 50000
    """
    for line in model_lines(model_figures(states)):
        stdout().print(line, highlight=False)
