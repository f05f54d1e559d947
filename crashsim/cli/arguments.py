"""Options that several commands share: their help texts and how their values are read."""

from pathlib import Path
from typing import Annotated

import typer

from crashsim.disk.profile import PROFILES
from crashsim.errors import UsageError
from crashsim.oracles.protocol import Property

FsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--fs",
        metavar="FS",
        help="ext4, xfs, btrfs or f2fs; options as ext4:data=writeback; a second disk as xfs+log "
        "or ext4+objects.",
    ),
]
SeedOption = Annotated[
    int, typer.Option(help="Every choice that is made at random follows from it.")
]
JobsOption = Annotated[int, typer.Option(min=1, max=64, help="Guests that work side by side.")]
JsonOption = Annotated[
    Path | None,
    typer.Option("--json", metavar="FILE", help="Write the result as JSON (- = stdout)."),
]
OutOption = Annotated[Path, typer.Option(help="Directory for recordings, bundles and results.")]
MachineOption = Annotated[str, typer.Option(help="auto or qemu.")]
KernelOption = Annotated[
    Path | None, typer.Option(help="A bzImage of your own (virtio and filesystems built in).")
]
DisturbOption = Annotated[
    list[str] | None,
    typer.Option(
        "--disturb",
        metavar="KIND",
        help="none, fsync, writer, writeback, commit, slow; repeatable. Default: all but slow.",
    ),
]
StatesOption = Annotated[
    str, typer.Option("--states", metavar="N|all", help="How many crash states to explore.")
]
TimeLimitOption = Annotated[
    float | None, typer.Option(min=1.0, help="Stop exploring after so many seconds.")
]
DeviceOption = Annotated[
    str,
    typer.Option(
        help="Device profile: what the disk may lose and tear, and how long it takes; one of "
        f"{', '.join(PROFILES)}. See docs/crash-states.md."
    ),
]

DEFAULT_OUT = Path("crashsim-out")
EXIT_VIOLATION = 1
EXIT_INCONCLUSIVE = 3


def read_states(text: str, option: str = "--states") -> int | None:
    """`N` as a number, `all` as None. Raises UsageError, naming the option, for anything else."""
    if text == "all":
        return None
    if text.isascii() and text.isdigit() and int(text) > 0:
        return int(text)
    raise UsageError(f"{option} takes a positive number or 'all', not {text!r}")


def read_properties(names: list[str] | None) -> tuple[Property, ...]:
    """The properties asked for, in the order of reports. Raises UsageError for unknown ones."""
    known = [each.value for each in Property]
    for name in names or ():
        if name not in known:
            raise UsageError(f"unknown property {name!r}: crashsim checks {', '.join(known)}")
    return tuple(each for each in Property if not names or each.value in names)
