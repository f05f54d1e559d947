"""Two filesystems on one machine against the definition: each as if it were alone, any with any."""

import os
from itertools import product

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from crashsim.model.models import MODELS
from crashsim.model.persistence import Model
from crashsim.model.simulated import Simulated
from crashsim.model.states import crash_states
from crashsim.model.tree import Node, Tree
from tests.support.model_histories import Step, open_and, take

INSIDE = "d"
FIRST = {"a": b"aaaa", "e/b": b"bbbb"}
SECOND = {"b": b"bbbb", "f/c": b"cc"}
WAYS_LIMIT = 600

first = st.sampled_from(["a", "c", "e/b", "e/c"])
second = st.sampled_from(["d/b", "d/g", "d/f/c", "d/f/h"])
content = st.binary(min_size=1, max_size=5)
models = st.sampled_from(list(MODELS.values()))


def steps_on(files: st.SearchStrategy[str], directories: list[str]) -> st.SearchStrategy[Step]:
    return st.one_of(
        st.tuples(st.sampled_from(["append", "overwrite", "rewrite"]), files, content),
        st.tuples(st.sampled_from(["rename", "link"]), files, files),
        st.tuples(st.just("unlink"), files),
        st.tuples(st.sampled_from(["fsync", "fdatasync", "writeout"]), files),
        st.tuples(st.sampled_from(["fsync", "syncfs"]), st.sampled_from(directories)),
    )


histories = st.lists(
    st.one_of(steps_on(first, ["/", "e"]), steps_on(second, ["d", "d/f"])), min_size=1, max_size=7
)


def done(machine: Simulated, step: Step) -> None:
    name, *arguments = step
    if name == "syncfs":
        open_and(machine, arguments[0], os.O_RDONLY, machine.sync_filesystem)
    else:
        take(machine, step)


def alone(step: Step) -> Step:
    """A step of the second filesystem as it is on a machine that has no other."""
    name, *arguments = step
    return name, *(
        (each.removeprefix("d/") if each != INSIDE else "/") if isinstance(each, str) else each
        for each in arguments
    )


def is_inside(step: Step) -> bool:
    path = str(step[1])
    return path == INSIDE or path.startswith("d/")


def at_the_end(machine: Simulated, model: Model) -> list[dict[str, Node]]:
    """Every tree that a crash after the last operation may leave."""
    log = machine.log
    states = crash_states(log, model, since=len(log.operations), pieces=None)
    assume(states.possible <= WAYS_LIMIT)
    return [dict(state.tree) for state in states]


def key(tree: dict[str, Node]) -> frozenset[tuple[str, int]]:
    return frozenset((path, node.digest) for path, node in tree.items())


@settings(max_examples=250, deadline=None)
@given(histories, models)
def test_any_crash_of_one_goes_with_any_of_the_other(sequence: list[Step], model: Model) -> None:
    inside = {f"{INSIDE}/{path}": data for path, data in SECOND.items()}
    both = Simulated(Tree.of({**FIRST, **inside}), mounts=(INSIDE,))
    outer, inner = Simulated(Tree.of(FIRST)), Simulated(Tree.of(SECOND))
    for step in sequence:
        done(both, step)
        if is_inside(step):
            done(inner, alone(step))
        else:
            done(outer, step)
    root = both.tree()[INSIDE]
    expected = {
        key({**one, INSIDE: root, **{f"{INSIDE}/{path}": node for path, node in other.items()}})
        for one, other in product(at_the_end(outer, model), at_the_end(inner, model))
    }
    assert {key(tree) for tree in at_the_end(both, model)} == expected
