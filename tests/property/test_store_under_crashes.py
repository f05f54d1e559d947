"""A person uses the store, the power fails, they go on: no claim of the method may ever break.

The property that all of this is for: no reachable object is ever lost under each fsync method.
"""

import stat

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from crashsim.campaigns.methods import Method, find_method
from crashsim.campaigns.simulated_store import REPOSITORY, Trees, base_repository
from crashsim.campaigns.validate import MODELS_OF_FILESYSTEMS
from crashsim.model.models import MODELS
from crashsim.model.operations import Promise
from crashsim.model.states import crash_states
from crashsim.model.tree import Tree
from crashsim.oracles.git import GitOracle, encode_promise, snapshot
from crashsim.oracles.protocol import Moment, Property
from crashsim.workloads.impl import method_names
from crashsim.workloads.simulated import OPERATIONS, PROGRAM, StoreMachine, StoreOperation, program

STATES_OF_A_CRASH = 12
CALL = program(PROGRAM)
BASE = base_repository(CALL)
TREES = Trees()
ONCE = ("update-refs", "tag")
"""They create references, which can be there only once."""

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
        state = snapshot(TREES.of(self.store.machine.tree()), REPOSITORY)
        text = encode_promise(
            name,
            state,
            unnoted_between=operation.unnoted_between if operation else (),
            one_transaction=operation.one_transaction if operation else False,
        )
        self.store.machine.promise(text)

    @rule(operation=st.sampled_from(sorted(OPERATIONS.values(), key=lambda each: each.name)))
    def use(self, operation: StoreOperation) -> None:
        if operation.name in self.done & set(ONCE):
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
        history = tuple(str(each.value) for each in log.operations if isinstance(each, Promise))
        oracle = GitOracle(history, REPOSITORY, "repo", exercise_every=0)
        model = MODELS[MODELS_OF_FILESYSTEMS[self.filesystem]]
        claimed = self.method.claims[self.filesystem]
        left = []
        for state in crash_states(log, model, limit=STATES_OF_A_CRASH, seed=seed):
            found = oracle.judge(TREES.of(state.tree), Moment(tuple(map(str, state.promises))))
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
        self.done |= set(ONCE)
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
