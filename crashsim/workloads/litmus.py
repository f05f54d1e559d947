"""The workload of `crashsim litmus`: tests, each in several variants, one after the other.

A variant says what happens meanwhile. A test alone leaves little to see, since a kernel writes
nothing early without a reason; so unrelated syncs and early writeback are put after every call of
the test, which is where they can show something, instead of being left to chance.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import resources

from crashsim.machines.protocol import Guest
from crashsim.workloads.litmus_interpreter import COMMIT_IOCTLS
from crashsim.workloads.litmus_tests import Litmus
from crashsim.workloads.protocol import Step
from crashsim.workloads.staging import put_files

BEGIN, DONE, END = "begin", "done", "end"
"""First words of a run's marks; the rest is its name."""

_STAGE = "/litmus"
_SCRIPT = "litmus_interpreter.py"
_SECONDS_MAX = 1800.0


@dataclass(frozen=True, slots=True)
class Variant:
    """What happens meanwhile.

    :ivar each: what `others` do after each call of the test but the last.
    :ivar last: what they do once the test is done.
    :ivar disturbed: whether an unrelated process syncs; else it is the kernel's own doing.
    """

    name: str
    each: tuple[str, ...] = ()
    last: tuple[str, ...] = ()
    disturbed: bool = False


_FSYNC, _COMMIT, _WRITEBACK = "others fsync", "others commit", "others writeback"

_ALWAYS = (
    Variant("alone"),
    Variant("writeback", (_WRITEBACK,), (_WRITEBACK,)),
    Variant("fsync", (_FSYNC,), (_FSYNC,), disturbed=True),
    Variant("fsync-last", (), (_FSYNC,), disturbed=True),
    Variant("writeback-fsync", (_WRITEBACK, _FSYNC), (_WRITEBACK, _FSYNC), disturbed=True),
    Variant("writeback-fsync-last", (), (_WRITEBACK, _FSYNC), disturbed=True),
)
_WITH_COMMITS = (
    Variant("commit", (_COMMIT,), (_COMMIT,)),
    Variant("commit-last", (), (_COMMIT,)),
    Variant("writeback-commit", (_WRITEBACK, _COMMIT), (_WRITEBACK, _COMMIT)),
    Variant("writeback-commit-last", (), (_WRITEBACK, _COMMIT)),
)


def variants(fstype: str) -> tuple[Variant, ...]:
    """The variants that mean something on a filesystem.

    Where a commit of its own is not the same as an unrelated fsync, there are variants for it.
    """
    return _ALWAYS + (_WITH_COMMITS if fstype in COMMIT_IOCTLS else ())


@dataclass(frozen=True, slots=True)
class Run:
    """One test in one variant, as the interpreter takes it."""

    name: str
    setup: tuple[str, ...]
    run: tuple[str, ...]
    after: tuple[str, ...]


def make_run(test: Litmus, variant: Variant) -> Run:
    """Put a variant's lines between those of a test.

    After the last call they come when the test is done: nothing else could be seen before that.
    """
    *calls, last = test.run
    lines: list[str] = []
    for line in calls:
        lines.append(line)
        if not _leaves_nothing(line):
            lines += variant.each
    return Run(f"{test.name} {variant.name}", test.setup, (*lines, last), variant.last)


def _leaves_nothing(line: str) -> bool:
    """Whether a call changes nothing that could be lost."""
    verb, *words = line.split()
    return verb == "close" or (verb == "open" and not {"create", "truncate"} & set(words))


@dataclass(frozen=True)
class LitmusWorkload:
    """Tests in all variants of a filesystem."""

    tests: tuple[Litmus, ...]
    fstype: str
    name: str = "litmus"
    environment: Mapping[str, str] = field(default_factory=dict)
    collect: Sequence[str] = ("",)

    @property
    def runs(self) -> tuple[Run, ...]:
        """Everything that runs, in this order."""
        kinds = variants(self.fstype)
        return tuple(make_run(test, variant) for test in self.tests for variant in kinds)

    @property
    def steps(self) -> Sequence[Step]:
        """One: an interpreter for each run would take most of the time."""
        argv = ("python3", f"{_STAGE}/{_SCRIPT}", f"{_STAGE}/plan.json", self.fstype)
        return (Step("litmus", argv, timeout_seconds=_SECONDS_MAX),)

    def prepare(self, guest: Guest, root: str) -> None:
        """Bring the interpreter and what it runs into the guest."""
        script = resources.files("crashsim.workloads").joinpath(_SCRIPT).read_bytes()
        plan = json.dumps([asdict(run) for run in self.runs]).encode()
        put_files(guest, _STAGE, {_SCRIPT: script, "plan.json": plan})

    def describe(self) -> Mapping[str, object]:
        """The tests' names."""
        return {"tests": [test.name for test in self.tests]}
