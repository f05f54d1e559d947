"""`crashsim repro` as a function: does the crash of a finding still break what it broke?"""

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crashsim.campaigns.prepared_machine import with_payload
from crashsim.campaigns.recorded import Recorded, open_recorded
from crashsim.campaigns.results import Finding
from crashsim.disk.profile import parse_profile
from crashsim.disk.recording import Recording
from crashsim.disk.state import CrashState, TornWrite
from crashsim.errors import UsageError
from crashsim.explore.exploration import kind_of
from crashsim.explore.verdict import Verdict
from crashsim.machines.filesystems import parse_filesystem
from crashsim.machines.images.recipe import ImageSpec
from crashsim.machines.protocol import Machine
from crashsim.machines.select import choose_machine
from crashsim.oracles.protocol import Property, Violation


class BadRestoration(UsageError):
    """A write was to be restored that the finding does not lose."""


@dataclass(frozen=True)
class Reproduction:
    """What became of a finding.

    :ivar state: the state that was recovered: the finding's, less what was restored.
    :ivar same: the finding's own kind of violation, if it is still there.
    :ivar verdict: everything that was found.
    """

    state: CrashState
    same: Violation | None
    verdict: Verdict


def state_of(finding: Finding, restore: Iterable[int] = ()) -> CrashState:
    """The crash state of a finding, with the writes `restore` brought back.

    Raises BadRestoration for a write that it does not lose.
    """
    restored = set(restore)
    lost = {*finding.dropped, *(torn.write for torn in finding.torn)}
    for write in sorted(restored - lost):
        known = ", ".join(map(str, sorted(lost))) or "none: it is a plain cut"
        raise BadRestoration(f"write {write} is not lost in {finding.id}; its lost writes: {known}")
    return CrashState(
        finding.cut,
        frozenset(finding.dropped) - restored,
        frozenset(
            TornWrite(torn.write, tuple(torn.kept_units))
            for torn in finding.torn
            if torn.write not in restored
        ),
    )


def open_case(recording: Path, oracle: Mapping[str, Any]) -> AbstractContextManager[Recorded]:
    """Open the recording of a bundle by what its manifest says.

    Raises UsageError where the manifest makes no sense: it is as untrusted as the bundle.
    """
    manifest = Recording.open(recording).manifest
    collect = manifest.details.get("collect", [])
    if not isinstance(collect, list) or not all(isinstance(each, str) for each in collect):
        raise UsageError(f"{recording}: the manifest's `collect` is no list of paths")
    return open_recorded(
        recording,
        parse_filesystem(str(manifest.details.get("filesystem", manifest.filesystem))),
        oracle,
        collect,
        parse_profile(str(manifest.details.get("device", "default"))),
    )


def reproduce(
    finding: Finding,
    recording: Path,
    oracle: Mapping[str, Any],
    payload: Path | None,
    *,
    machine: str = "auto",
    restore: Iterable[int] = (),
) -> Reproduction:
    """Recover the finding's crash state in a guest and judge it anew.

    Raises UsageError for a finding or recording that makes no sense, InfrastructureError where no
    guest can say.
    """
    state = state_of(finding, restore)
    with open_case(recording, oracle) as recorded:
        recorded.images.check_legal(state)
        with recorded.recoverer(machine_for(machine, payload)) as recoverer:
            verdict = recorded.decider(frozenset()).decide(state, recoverer)
    wanted = Property(finding.property), finding.rule
    same = next((each for each in verdict.violations if kind_of(each) == wanted), None)
    return Reproduction(state, same, verdict)


def machine_for(kind: str, payload: Path | None) -> Machine:
    """The machine of a kind, with a payload if there is one."""
    machine = choose_machine(kind, ImageSpec())
    return with_payload(machine, payload)
