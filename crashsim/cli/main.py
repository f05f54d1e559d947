"""The `crashsim` command: registers one file per command and turns errors into exit codes."""

import sys

import typer

from crashsim import __version__
from crashsim.cli.bench import bench_app
from crashsim.cli.doctor import doctor
from crashsim.cli.image import image_app
from crashsim.cli.litmus import litmus
from crashsim.cli.matrix import matrix
from crashsim.cli.output import complain
from crashsim.cli.report import report
from crashsim.cli.repro import repro
from crashsim.cli.run import run
from crashsim.cli.selftest import selftest
from crashsim.cli.shell import shell
from crashsim.cli.validate import validate
from crashsim.errors import CrashsimError

EXIT_INTERRUPTED = 130


def _exit_with(code: object, **_options: object) -> None:
    """Make the number that a command returned the exit code."""
    raise typer.Exit(code if isinstance(code, int) else 0)


app = typer.Typer(
    name="crashsim",
    help="Was it saved? Record a program's disk in a VM, explore every power cut, show the loss.",
    no_args_is_help=True,
    add_completion=False,
    result_callback=_exit_with,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"crashsim {__version__}")
        raise typer.Exit


@app.callback()
def _crashsim(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Options of the program itself."""


app.command()(doctor)
app.add_typer(image_app, name="image")
app.command()(run)
app.command()(matrix)
app.command()(repro)
app.command()(report)
app.command()(shell)
app.command()(selftest)
app.command()(litmus)
app.command()(validate)
app.add_typer(bench_app, name="bench")


def main() -> None:
    """Run the command line; the process ends with the exit codes of DESIGN section 5."""
    try:
        app()
    except SystemExit as ending:
        if ending.code == EXIT_INTERRUPTED:
            complain("interrupted; what was recorded stays readable, nothing else was left behind")
        raise
    except CrashsimError as error:
        complain(str(error))
        sys.exit(error.exit_code)
