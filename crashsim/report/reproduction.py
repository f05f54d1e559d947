"""What `crashsim repro` prints."""

from rich.console import ConsoleRenderable, Group
from rich.text import Text

from crashsim.campaigns.repro import Reproduction
from crashsim.campaigns.results import Finding
from crashsim.report.tables import render_finding
from crashsim.report.words import printable


def render_reproduction(finding: Finding, outcome: Reproduction) -> ConsoleRenderable:
    """Whether the finding is still there, in words, and what else was found."""
    parts: list[ConsoleRenderable] = []
    restored = sorted(
        {*finding.dropped, *(torn.write for torn in finding.torn)}
        - {*outcome.state.dropped, *(torn.write for torn in outcome.state.torn)}
    )
    if restored:
        writes = ", ".join(map(str, restored))
        parts.append(Text(f"with write {writes} restored:"))
    if outcome.same is not None:
        parts.append(render_finding(finding))
        parts.append(Text.assemble(("still there: ", "bold red"), printable(outcome.same.detail)))
    else:
        kind = f"{printable(finding.property)} {printable(finding.rule)}"
        # A check that broke down before its end says nothing about what it did not get to.
        undecided = Text(f"undecided: {kind}", "bold yellow")
        parts.append(undecided if outcome.verdict.inconclusive else Text(f"gone: {kind}", "green"))
    for other in outcome.verdict.violations:
        if other is not outcome.same:
            parts.append(
                Text(
                    f"besides: {other.property} {printable(other.rule)}: {printable(other.detail)}",
                    "yellow",
                )
            )
    if outcome.verdict.inconclusive:
        parts.append(Text(f"inconclusive: {printable(outcome.verdict.inconclusive)}", "yellow"))
    return Group(*parts)
