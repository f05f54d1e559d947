"""Every shipped method holds what it claims in the model, and every wrong one is found out."""

import pytest

from crashsim.campaigns.methods import find_method
from crashsim.campaigns.validate import (
    FILESYSTEMS_WITH_KERNELS,
    ModelOptions,
    filesystems_of,
    validate_in_model,
)
from crashsim.campaigns.validation import ValidationResult
from crashsim.workloads.impl import method_names
from tests.support.wrong_methods import WRONG, StrictInAnotherOrder

OPTIONS = ModelOptions(states_limit=400)
LOCATION = "tests.support.wrong_methods"


def verdict(name: str) -> ValidationResult:
    method = find_method(name)
    return validate_in_model(method, filesystems_of(method), OPTIONS)


def refuted(result: ValidationResult) -> dict[str, list[str]]:
    return {each.fs: each.refuted for each in result.filesystems if each.refuted}


@pytest.mark.parametrize("name", method_names())
def test_a_shipped_method_holds_what_it_claims(name: str) -> None:
    assert refuted(verdict(name)) == {}


def test_our_own_method_claims_everything_everywhere() -> None:
    claims = find_method("paired-syncfs").claims

    assert {len(properties) for properties in claims.values()} == {5}
    assert set(claims) == set(FILESYSTEMS_WITH_KERNELS)


@pytest.mark.parametrize("method", WRONG, ids=lambda each: each.name)
def test_a_wrong_method_is_found_out_by_a_small_crash(method: type) -> None:
    result = verdict(f"{LOCATION}:{method.__name__}")

    assert not result.confirmed
    smallest = min(
        (
            one
            for each in result.filesystems
            for one in each.model.counterexamples
            if one.property in each.refuted
        ),
        key=lambda one: (len(one.operations), one.lost),
    )
    assert len(smallest.operations) <= 3
    assert smallest.lost <= 2


def test_a_right_method_in_an_unusual_order_is_not_refuted() -> None:
    assert refuted(verdict(f"{LOCATION}:{StrictInAnotherOrder.__name__}")) == {}


def test_the_same_seed_gives_the_same_counterexamples() -> None:
    name = f"{LOCATION}:{WRONG[0].__name__}"
    one, other = (
        [each.model.counterexamples for each in verdict(name).filesystems] for _ in range(2)
    )

    assert one == other
