"""A selftest in the terminal."""

from rich import box
from rich.console import ConsoleRenderable, Group
from rich.table import Table
from rich.text import Text

from crashsim.campaigns.selftest_result import HarnessOutcome, RunOutcome, SelftestResult
from crashsim.report.words import counted, printable, seconds_in_words
from crashsim.workloads.selftest_programs import CARELESS, PROGRAMS

_RED, _GREEN, _QUIET, _LOUD = "bold red", "green", "dim", "bold yellow"


def render_selftest(result: SelftestResult) -> ConsoleRenderable:
    """Every program and every check of the harness, what was expected and what was found."""
    parts: list[ConsoleRenderable] = [_programs(result), _harness(result)]
    parts += [
        Text(printable(each.detail), _RED)
        for each in result.programs
        if not each.passed and each.detail
    ]
    return Group(*parts, _verdict(result), _facts(result))


def _programs(result: SelftestResult) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    table.add_column("")
    table.add_column("program", no_wrap=True)
    table.add_column("on", no_wrap=True)
    table.add_column("what it does", overflow="fold", ratio=1)
    table.add_column("must be", no_wrap=True)
    table.add_column("broken in", justify="right", no_wrap=True)
    table.add_column("takes", no_wrap=True)
    for each in result.programs:
        table.add_row(
            _sign(each.passed),
            Text(printable(f"{each.program}, {each.twin}" if each.twin else each.program)),
            Text(printable(each.fs)),
            Text(printable(_mistake(each)), _QUIET),
            Text(each.expected),
            Text(f"{each.broken} of {each.states}", "" if each.passed else _RED),
            Text(each.simplest),
        )
    return table


def _mistake(each: RunOutcome) -> str:
    if each.program not in PROGRAMS:
        return each.detail
    if each.twin != CARELESS:
        return "the same without that mistake"
    mistake = (PROGRAMS[each.program][0].__doc__ or "").rstrip(".")
    return mistake if each.expected == "caught" else f"{mistake}; this one does"


def _harness(result: SelftestResult) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    for name in ("", "harness", "must give", "gave"):
        table.add_column(name, overflow="fold")
    for each in result.harness:
        table.add_row(_sign(each.passed), *_harness_row(each))
    return table


def _harness_row(each: HarnessOutcome) -> tuple[Text, Text, Text]:
    found = Text(printable(each.found), "" if each.passed else _RED)
    return Text(printable(each.name)), Text(each.expected), found


def _sign(passed: bool) -> Text:
    return Text("✓", _GREEN) if passed else Text("✗", _RED)


def _verdict(result: SelftestResult) -> Text:
    if result.inconclusive:
        states = counted(result.inconclusive, "crash state")
        return Text(f"? nothing can be said: {states} could not be decided", _LOUD)
    if not result.passed:
        return Text("✗ this harness is not to be trusted on this machine", _RED)
    caught = sum(each.expected == "caught" for each in result.programs)
    clean = len(result.programs) - caught
    return Text(f"✓ {caught} mistakes caught, {clean} programs clean", f"bold {_GREEN}")


def _facts(result: SelftestResult) -> Text:
    machine = result.machine
    return Text(
        f"{machine.kind} ({machine.accel}), Linux {printable(machine.kernel)}; "
        f"seed {result.seed}; {seconds_in_words(result.seconds)}",
        _QUIET,
    )
