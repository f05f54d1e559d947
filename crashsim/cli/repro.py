"""`crashsim repro`: replay the crash of a bundle."""

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from crashsim.campaigns.repro import reproduce
from crashsim.cli.arguments import (
    EXIT_INCONCLUSIVE,
    EXIT_VIOLATION,
    JsonOption,
    MachineOption,
)
from crashsim.cli.output import stderr, stdout, write_json
from crashsim.cli.shell import shell_into_state
from crashsim.report.bundle import read_bundle
from crashsim.report.reproduction import render_reproduction


def repro(
    bundle: Annotated[Path, typer.Argument(help="A finding's bundle: FILE.crashsim")],
    restore: Annotated[
        list[int] | None,
        typer.Option(metavar="WRITE", help="Bring this lost write back first; repeatable."),
    ] = None,
    shell: Annotated[
        bool, typer.Option("--shell", help="Mount the crash state and open a shell.")
    ] = False,
    machine: MachineOption = "auto",
    json_file: JsonOption = None,
) -> int:
    """Recover the crash of a bundle again: exit 1 if its finding is still there, 0 if not.

    Violations of other kinds are told and do not count: a restored write may mend one of several.
    Nothing of the bundle runs on this host; its programs run in the guest.

    Examples:

      crashsim repro crashsim-out/git-ext4-none-default/intact-empty-loose-object.crashsim

      crashsim repro case.crashsim --restore 1234     # is this write really the one?

      crashsim repro case.crashsim --shell            # look around in the recovered filesystem
    """
    with tempfile.TemporaryDirectory(prefix="crashsim-repro-") as scratch:
        opened = read_bundle(bundle, Path(scratch))
        if shell:
            return shell_into_state(opened, restore or (), machine)
        with stderr.status("recovering the crash state in a guest"):
            outcome = reproduce(
                opened.finding,
                opened.recording,
                opened.oracle,
                opened.payload,
                machine=machine,
                restore=restore or (),
            )
    if json_file is not None:
        write_json(
            {
                "schema": "crashsim.repro/1",
                "finding": opened.finding.id,
                "fails": outcome.same is not None,
                "restored": sorted(restore or ()),
                "violations": [
                    {
                        "property": each.property,
                        "rule": each.rule,
                        "subject": each.subject,
                        "detail": each.detail,
                    }
                    for each in outcome.verdict.violations
                ],
                "inconclusive": outcome.verdict.inconclusive,
            },
            json_file,
        )
    if str(json_file) != "-":
        stdout().print(render_reproduction(opened.finding, outcome))
    if outcome.same is not None:
        return EXIT_VIOLATION
    return EXIT_INCONCLUSIVE if outcome.verdict.inconclusive else 0
