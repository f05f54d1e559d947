"""paired-syncfs on a repository on several filesystems: which are synced, and when."""

from collections.abc import Iterator
from functools import partial

import pytest

from crashsim.model.operations import Entry, Log, Scope, Sync
from crashsim.model.simulated import Simulated
from crashsim.model.tree import Tree
from crashsim.workloads.simulated import PROGRAM, WORKTREE, Command, StoreMachine, program
from impl.durability.filesystems import Filesystems
from tests.support.model_calls import put

GIT = f"{WORKTREE.strip('/')}/.git"
SETTINGS = ("core.fsync=all", "core.fsyncMethod=paired-syncfs")
COMMIT = (Command(("add", "--all")), Command(("commit", "-q", "-m", "commit")))


@pytest.fixture(scope="module")
def base() -> Tree:
    store = StoreMachine(program(PROGRAM))
    store.set_up()
    return store.machine.tree()


def run(base: Tree, mounts: tuple[str, ...], *commands: Command) -> Log:
    """What the commands did, after a new file."""
    store = StoreMachine(program(PROGRAM), SETTINGS, base, start=partial(Simulated, mounts=mounts))
    store.write_files(1, 0)
    for command in commands:
        store.run(command)
    return store.machine.log


def told(log: Log) -> Iterator[str]:
    """Its syncs, and where a name appears that is no temporary one, in order and each run once."""
    last = ""
    for each in log.operations:
        match each:
            case Sync(scope=Scope.FILESYSTEM):
                now = f"sync {each.path.removeprefix('/' + GIT) or '/'}"
            case Entry(added=slot) if slot is not None and each.text.startswith(("link", "rename")):
                now = "object" if f"{GIT}/objects/" in each.text else "reference"
            case _:
                continue
        if now != last or now.startswith("sync"):
            yield now
        last = now


def test_on_one_filesystem_there_are_two(base: Tree) -> None:
    assert list(told(run(base, (), COMMIT[0]))) == ["sync /", "object", "reference", "sync /"]


def test_each_is_synced_and_objects_once_more_before_the_index_has_its_name(base: Tree) -> None:
    assert list(told(run(base, (f"{GIT}/objects",), COMMIT[0]))) == [
        "sync /",
        "sync /objects",
        "object",
        "sync /objects",
        "reference",
        "sync /",
    ]


def test_what_is_not_changed_is_not_synced(base: Tree) -> None:
    update = Command(("update-ref", "refs/heads/other", "HEAD"))
    assert list(told(run(base, (f"{GIT}/objects",), update))) == ["sync /", "reference", "sync /"]


def test_references_elsewhere_wait_for_objects_too(base: Tree) -> None:
    """The index is beside HEAD then, the references are not."""
    found = list(told(run(base, (f"{GIT}/refs",), *COMMIT)))
    assert "sync /refs" in found
    names = [at for at, each in enumerate(found) if each == "reference"]
    assert all("sync /" in found[:at] for at in names)


def test_a_promised_removal_is_synced_where_it_was(base: Tree) -> None:
    make = Command(("update-ref", "refs/heads/other", "HEAD"))
    delete = Command(("update-ref", "-d", "refs/heads/other"))
    machine = run(base, (f"{GIT}/refs",), make, delete)
    removed = max(
        each.number
        for each in machine.operations
        if isinstance(each, Entry) and each.text == f"unlink /{GIT}/refs/heads/other"
    )
    after = [each.path for each in machine.syncs if each.number > removed]
    assert f"/{GIT}/refs" in after


def test_a_filesystem_is_known_by_a_directory_that_stays() -> None:
    machine = Simulated(
        Tree.of({"git/objects/ab/x": b"", "git/HEAD": b"", "tree/f": b""}),
        mounts=("git/objects", "tree"),
    )
    found = Filesystems(machine, "/git")
    put(machine, "/git/objects/ab/new")
    descriptor = machine.open("/git/objects/ab/new", 0)
    objects = found.of_file(descriptor, "/git/objects/ab/new")
    assert found.directory(objects) == "/git/objects"
    own = found.of_path("/git/refs/heads/gone")
    assert found.is_own(own)
    assert not found.is_own(objects)
    assert found.directory(own) == "/git"
    tree = found.of_path("/tree/f")
    assert found.directory(tree) == "/tree"
    assert len({own, objects, tree}) == 3
