"""`crashsim image`: build, list and remove guest images."""

import datetime
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich import progress as bars
from rich.table import Table

from crashsim.cli.arguments import JsonOption, KernelOption
from crashsim.cli.output import stderr, stdout, write_json
from crashsim.errors import UsageError
from crashsim.machines.docker_image import remove_container_images
from crashsim.machines.images import (
    BuildProgress,
    Image,
    ImageSpec,
    Progress,
    cache,
    find_or_build_image,
)

image_app = typer.Typer(no_args_is_help=True, help="Build, list and remove guest images.")


@image_app.command()
def build(
    recipe: Annotated[
        str, typer.Option(help="A recipe that crashsim brings, or the path of a .toml file.")
    ] = "debian-13",
    suite: Annotated[
        str | None, typer.Option(help="Debian suite in place of the recipe's: bookworm, sid, …")
    ] = None,
    kernel: KernelOption = None,
) -> None:
    """Build a guest image, unless the cache has it.

    It takes about a minute, 0.4 GB of disk, the network, and no root. Every other command builds
    the image that it needs by itself.

    Example: crashsim image build --suite sid
    """
    with build_progress() as report:
        image = find_or_build_image(ImageSpec(recipe=recipe, suite=suite, kernel=kernel), report)
    stdout().print(
        f"image {image.digest[:12]}: Debian {image.manifest.recipe.suite}, kernel "
        f"{image.kernel_release}, {_megabytes(_image_bytes(image))}",
        highlight=False,
    )


@contextmanager
def build_progress() -> Iterator[Progress]:
    """What to give to `find_or_build_image`: a progress bar on stderr, or a line for each phase.

    Nothing is shown before the first report, so an image found in the cache shows nothing.
    """
    bar = bars.Progress(
        bars.SpinnerColumn(),
        bars.TextColumn("guest image: {task.description}"),
        bars.BarColumn(),
        bars.TimeElapsedColumn(),
        console=stderr,
        transient=True,
    )
    task = bar.add_task("", total=1.0)
    phases: set[str] = set()

    def report(progress: BuildProgress) -> None:
        if stderr.is_terminal:
            bar.start()
            bar.update(task, description=progress.phase, completed=progress.fraction)
        elif progress.phase not in phases:
            phases.add(progress.phase)
            stderr.print(f"guest image: {progress.phase}", highlight=False)

    try:
        yield report
    finally:
        bar.stop()


@image_app.command("list")
def list_(
    verify: Annotated[
        bool, typer.Option("--verify", help="Read every image and compare it with what was built.")
    ] = False,
    json: JsonOption = None,
) -> None:
    """List the guest images in the cache, with the size of the boot snapshots made from each.

    Ends with exit code 3 if an image is damaged.

    Example: crashsim image list --verify
    """
    rows: list[dict[str, Any]] = []
    damage: cache.ImageDamaged | None = None
    for digest in cache.image_digests():
        row: dict[str, Any] = {"digest": digest, "damaged": None}
        try:
            image = cache.load_image(digest)
            if image is None:
                continue
            row |= _describe(image)
            if verify:
                cache.verify_image(image)
        except cache.ImageDamaged as error:
            row["damaged"] = str(error)
            damage = error
        rows.append(row | {"snapshot_bytes": cache.snapshot_bytes(digest)})
    write_json({"schema": "crashsim.images/1", "images": rows}, json)
    if json is None:
        stdout().print(_table(rows) if rows else "no images; `crashsim image build` makes one")
    if damage is not None:
        raise damage


def _describe(image: Image) -> dict[str, Any]:
    return {
        "suite": image.manifest.recipe.suite,
        "kernel": image.kernel_release,
        "git": image.manifest.packages.get("git"),
        "bytes": _image_bytes(image),
        "built": image.manifest.built,
        "build_seconds": image.manifest.build_seconds,
        "directory": str(image.rootfs.parent),
    }


def _table(rows: list[dict[str, Any]]) -> Table:
    table = Table("image", "suite", "kernel", "git", "size", "snapshots", "built")
    for row in rows:
        snapshots = _megabytes(row["snapshot_bytes"])
        if "suite" not in row:
            table.add_row(row["digest"][:12], "damaged", "", "", "", snapshots, "")
            continue
        built = datetime.datetime.fromtimestamp(row["built"]).date().isoformat()
        size = "damaged" if row["damaged"] else _megabytes(row["bytes"])
        table.add_row(
            row["digest"][:12],
            row["suite"],
            row["kernel"],
            row["git"] or "",
            size,
            snapshots,
            built,
        )
    return table


@image_app.command()
def rm(
    digests: Annotated[
        list[str] | None,
        typer.Argument(metavar="[DIGEST]...", help="As `image list` shows it; may be shortened."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Remove every image.")] = False,
) -> None:
    """Remove guest images and the boot snapshots made from them.

    With --all also the image that --machine docker has put into the Docker daemon.

    Example: crashsim image rm 7d1874faf5ec
    """
    if everything == bool(digests):
        raise UsageError("name the images to remove, or give --all: see `crashsim image list`")
    for digest in cache.image_digests() if everything else digests or []:
        removed = cache.remove_image(digest)
        stdout().print(f"removed image {removed[:12]}", highlight=False)
    if everything and remove_container_images():
        stdout().print("removed the image of --machine docker from the Docker daemon")


def _image_bytes(image: Image) -> int:
    return sum(record.bytes for record in image.manifest.files.values())


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"
