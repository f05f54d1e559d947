"""Every method through the model, each in a process of its own."""

import pytest

from crashsim.campaigns import every_method
from crashsim.campaigns.every_method import MethodProcessFailed, each_method
from crashsim.campaigns.validation import ValidationResult


@pytest.fixture(autouse=True)
def two_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(every_method, "method_names", lambda: ("barrier", "paired-syncfs"))


def test_results_come_in_the_order_of_names() -> None:
    results = each_method(ValidationResult, ["--quick", "--length", "1", "--fs", "xfs"], 2)

    assert [each.method for each in results] == ["barrier", "paired-syncfs"]
    assert all(each.confirmed for each in results)
    assert all(each.filesystems[0].model.distinct > 0 for each in results)


def test_a_process_without_a_result_is_no_verdict() -> None:
    with pytest.raises(MethodProcessFailed, match=r"process for barrier ended with 2: .*"):
        each_method(ValidationResult, ["--quick", "--fs", "nosuchfs"], 2)
