"""A person uses the store, the power fails, they go on: no claim of the method may ever break.

The property that all of this is for: no reachable object is ever lost under each fsync method.
"""

import stat

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from crashsim.campaigns.methods import Method, find_method
from crashsim.campaigns.simulated_judge import Trees, judge, oracle_of
from crashsim.campaigns.simulated_store import base_repository, promise_state
from crashsim.campaigns.validate import MODELS_OF_FILESYSTEMS
from crashsim.model.models import MODELS
from crashsim.model.states import crash_states
from crashsim.model.tree import Tree
from crashsim.oracles.protocol import Property
from crashsim.workloads.impl import method_names
from crashsim.workloads.simulated import OPERATIONS, PROGRAM, StoreMachine, StoreOperation, program

STATES_OF_A_CRASH = 12
CALL = program(PROGRAM)
BASE = base_repository(CALL)
TREES = Trees()
ONCE = {each.name for each in OPERATIONS.values() if each.once}

CLAIMS = [
    (method, filesystem)
    for method in map(find_method, method_names())
    for filesystem in MODELS_OF_FILESYSTEMS
    if Property.INTACT in method.claims.get(filesystem, ())
]


class StoreUnderCrashes(RuleBasedStateMachine):
    """One repository through several lives, under one method on one filesystem."""

    store: StoreMachine
    method: Method
    filesystem: str

    @initialize(claim=st.sampled_from(CLAIMS), seed=st.integers(0, 1 << 16))
    def power_on(self, claim: tuple[Method, str], seed: int) -> None:
        self.method, self.filesystem = claim
        self.done: set[str] = set()
        self.last = ""
        self.seed = seed
        self.boot(BASE)

    def boot(self, tree: Tree) -> None:
        settings = ("core.fsync=all", f"core.fsyncMethod={self.method.setting}")
        self.seed += 1
        self.store = StoreMachine(CALL, settings, tree, seed=self.seed)
        self.promise("base")

    def promise(self, name: str, operation: StoreOperation | None = None) -> None:
        promise_state(self.store, TREES, name, operation)

    @rule(operation=st.sampled_from(sorted(OPERATIONS.values(), key=lambda each: each.name)))
    def use(self, operation: StoreOperation) -> None:
        if operation.name in self.done & ONCE:
            return
        # Right after: what changes the same files in between is a conflict, in git as well.
        if operation.needs and self.last not in operation.needs:
            return
        self.store.do(operation)
        self.done.add(operation.name)
        self.last = operation.name
        self.promise(operation.name, operation)

    @precondition(lambda self: len(self.store.machine.operations) > 1)
    @rule(pick=st.integers(0, STATES_OF_A_CRASH - 1), seed=st.integers(0, 1 << 16))
    def lose_power(self, pick: int, seed: int) -> None:
        log = self.store.machine.log
        oracle = oracle_of(log)
        model = MODELS[MODELS_OF_FILESYSTEMS[self.filesystem]]
        claimed = self.method.claims[self.filesystem]
        left = []
        for state in crash_states(log, model, limit=STATES_OF_A_CRASH, seed=seed):
            found = judge(oracle, state, TREES)
            broken = [violation for violation in found if violation.property in claimed]
            assert not broken, f"{broken[0]} in:\n{state.describe()}"
            if not found:
                left.append(state.tree)
        # Life goes on in a state in which nothing is broken, claimed or not.
        if left:
            self.go_on(left[pick % len(left)])

    def go_on(self, tree: Tree) -> None:
        """As a person does: remove the locks that git tells them to remove, then go on."""
        self.done.clear()
        self.done |= ONCE
        self.last = ""
        self.boot(tree)
        self.remove_locks("/repo/.git")
        self.promise("recovered")

    def remove_locks(self, directory: str) -> None:
        machine = self.store.machine
        for name in list(machine.list_directory(directory)):
            path = f"{directory}/{name}"
            if name.endswith(".lock"):
                machine.unlink(path)
            elif stat.S_ISDIR(machine.lstat(path).st_mode):
                self.remove_locks(path)


TestStoreUnderCrashes = StoreUnderCrashes.TestCase
TestStoreUnderCrashes.settings = settings(max_examples=1_000, stateful_step_count=6, deadline=None)
