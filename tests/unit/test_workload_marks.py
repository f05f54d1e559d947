import pytest

from crashsim.workloads.marks import (
    END,
    START,
    BadPromise,
    checked_promise,
    is_reserved,
    promises,
    step_mark,
    step_name,
)


def test_the_recorders_own_marks_are_no_promises() -> None:
    own = [START, END, step_mark("add-1")]

    assert all(is_reserved(mark) for mark in own)
    assert promises([START, "saved 1", step_mark("x"), '{"refs":{}}', END]) == (
        "saved 1",
        '{"refs":{}}',
    )


@pytest.mark.parametrize("name", ["add-1", 'quote"and\\slash', "naïve"])
def test_a_steps_name_comes_back_out_of_its_mark(name: str) -> None:
    assert step_name(step_mark(name)) == name


@pytest.mark.parametrize("mark", [START, END, "saved 1", '{"name":"x"}'])
def test_other_marks_name_no_step(mark: str) -> None:
    assert step_name(mark) is None


@pytest.mark.parametrize("text", [END, '{"crashsim":1}', "two\nlines", "nul\0", "x" * (1 << 21)])
def test_a_promise_that_the_log_or_a_check_would_misread_is_refused(text: str) -> None:
    with pytest.raises(BadPromise):
        checked_promise(text)


@pytest.mark.parametrize("text", ["", "saved 1", "tab\tin it", '{"crash":1}', "\udcff"])
def test_any_other_line_is_a_promise_as_it_is(text: str) -> None:
    assert checked_promise(text) == text
