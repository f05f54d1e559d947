"""What a method's syncs are for: each is taken away, and something that it claims must break."""

from collections.abc import Sequence

import pytest

from crashsim.campaigns.methods import find_method
from crashsim.campaigns.necessity import STATES_PER_RUN, NecessityResult, necessity
from crashsim.campaigns.validate import MODELS_OF_FILESYSTEMS, ModelOptions
from crashsim.workloads.impl import method_names
from crashsim.workloads.simulated import OPERATIONS
from crashsim.workloads.simulated_scenarios import SCENARIOS, Scenario

LOCATION = "tests.support.wrong_methods"
ADD = [Scenario(OPERATIONS["add"])]


def removals(name: str, tried: Sequence[Scenario] = SCENARIOS) -> NecessityResult:
    options = ModelOptions(states_limit=STATES_PER_RUN)
    return necessity(find_method(name), MODELS_OF_FILESYSTEMS, options, tried=tried)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("method", method_names())
def test_a_shipped_method_makes_no_sync_without_need(method: str) -> None:
    result = removals(method)

    assert result.refuted == {}
    assert [(each.operation, each.path, each.after) for each in result.unneeded] == []
    assert len(result.removals) >= 10


@pytest.mark.parametrize("method", ["batch", "bulk-rename"])
def test_the_one_flush_for_all_objects_is_for_filesystems_whose_log_can_be_ahead(
    method: str,
) -> None:
    flushes = [each for each in removals(method, ADD).removals if each.call == "fsync"]

    assert {"apfs"} <= {name for each in flushes for name in each.breaks if each.breaks[name]}
    assert all(each.needed for each in flushes)
    for each in flushes:
        if "bulk_fsync" in each.path:
            assert {name for name in each.breaks if each.breaks[name]} == {"apfs"}


def test_a_sync_that_nobody_needs_is_told() -> None:
    result = removals(f"{LOCATION}:SyncsOnceMore", ADD)

    told = {(each.operation, each.call, each.after) for each in result.unneeded}
    assert ("add", "syncfs", "index is named (2)") in told
    assert ("add", "syncfs", "index is named") in told


def test_a_claim_that_does_not_hold_with_all_syncs_is_told() -> None:
    assert removals(f"{LOCATION}:NoSync", ADD).refuted["ext4"] == ["intact"]


@pytest.mark.timeout(900)
def test_a_stash_goes_when_what_it_brought_back_is_durable() -> None:
    """strict trusts no syncfs(2): it has to sync the working tree's files itself."""
    popped = [each for each in SCENARIOS if each.operation.name == "stash-pop"]

    result = removals("strict", popped)

    assert result.refuted == {}
    of_the_working_tree = [each for each in result.removals if "/.git" not in each.path]
    assert any(
        "durable" in broken for each in of_the_working_tree for broken in each.breaks.values()
    )
