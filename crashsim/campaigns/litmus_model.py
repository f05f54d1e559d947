"""Litmus tests in the simulated operating system: what a persistence model allows."""

from collections.abc import Callable, Mapping

from crashsim.model.models import MODELS
from crashsim.model.persistence import Model
from crashsim.model.simulated import Simulated
from crashsim.model.states import crash_states
from crashsim.model.tree import Directory, File, Symlink, Tree
from crashsim.oracles.outcomes import MISSING, describe, outcome
from crashsim.workloads.litmus_interpreter import BLOCK_BYTES, DIRECTORY, Interpreter
from crashsim.workloads.litmus_tests import Litmus

EVER, AFTER = "ever", "after"
"""Stages: at any moment since the first call began, and once all calls have returned."""

_MODEL_NAMES: Mapping[str, str] = {
    "ext4": "ext4-ordered",
    "ext4:data=ordered": "ext4-ordered",
    "ext4:data=writeback": "ext4-writeback",
    "xfs": "xfs",
    "btrfs": "btrfs",
    "f2fs": "f2fs",
}


def model_of(filesystem: str) -> Model | None:
    """The model that a filesystem, with its mount options, is held to; None: there is none."""
    return MODELS.get(_MODEL_NAMES.get(filesystem, ""))


def allowed_outcomes(test: Litmus, model: Model) -> Mapping[str, frozenset[str]]:
    """Stage -> every outcome that some crash may leave by the model's rules.

    A program never stops between its calls for long, and others sync at any time: what a real
    filesystem shows in any variant has to be among these.
    """
    log = _simulate(test)
    found: dict[str, set[str]] = {EVER: set(), AFTER: set()}
    for state in crash_states(log.log, model):
        left = outcome(test.files, _look_in(state.tree))
        found[EVER].add(left)
        if state.promises:
            found[AFTER].add(left)
    return {stage: frozenset(outcomes) for stage, outcomes in found.items()}


def _simulate(test: Litmus) -> Simulated:
    before = Simulated()
    before.make_directory(DIRECTORY)
    setup = Interpreter(before, DIRECTORY)
    for line in test.setup:
        setup.run(line)
    setup.close_all()
    simulated = Simulated(base=before.tree())
    interpreter = Interpreter(simulated, DIRECTORY)
    for line in test.run:
        interpreter.run(line)
    simulated.promise(AFTER)
    interpreter.close_all()
    return simulated


def _look_in(tree: Tree) -> Callable[[str], str]:
    def look(name: str) -> str:
        match tree.get(f"{DIRECTORY}/{name}"):
            case File(content=content):
                return describe(content, BLOCK_BYTES)
            case Directory():
                return "directory"
            case Symlink():
                return "symlink"
        return MISSING

    return look
