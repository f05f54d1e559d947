"""From a finding back to the crash state that it stands for."""

import pytest

from crashsim.campaigns.repro import BadRestoration, state_of
from crashsim.campaigns.results import Finding, TornResult
from crashsim.disk.state import CrashState, TornWrite

FINDING = Finding(
    id="intact-x",
    property="intact",
    rule="x",
    subject="",
    detail="",
    blame="application",
    cut=9,
    dropped=[3, 5],
    torn=[TornResult(4, [0, 2])],
    explanation=[],
)


def test_nothing_restored_is_the_findings_own_state() -> None:
    expected = CrashState(9, frozenset({3, 5}), frozenset({TornWrite(4, (0, 2))}))

    assert state_of(FINDING) == expected


def test_restored_writes_are_kept_whole() -> None:
    assert state_of(FINDING, [5, 4]) == CrashState(9, frozenset({3}))


def test_only_lost_writes_can_be_restored() -> None:
    with pytest.raises(BadRestoration, match=r"write 7 is not lost.*3, 4, 5"):
        state_of(FINDING, [7])
