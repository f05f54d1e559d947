"""What storage engineers know of crashes, told by the persistence models."""

import os
from collections.abc import Callable

import pytest

from crashsim.model.models import MODELS
from crashsim.model.operations import Log
from crashsim.model.simulated import Simulated
from crashsim.model.states import CrashState, crash_states
from crashsim.model.tree import File, Tree
from tests.support.model_calls import NEW, append, overwrite, put, sync
from tests.support.model_ideals import INTENDED

ZEROS = bytes(len(NEW))
ALL = list(MODELS)
IN_ORDER = ["ext4-ordered", "ext4-writeback", "xfs", "ntfs", "apfs"]


def states(log: Log, model: str) -> list[CrashState]:
    return list(crash_states(log, INTENDED[model]))


def outcomes(machine: Simulated, model: str, path: str = "f") -> set[bytes | None]:
    return {state.tree.content(path) for state in states(machine.log, model)}


def after_promise(machine: Simulated, model: str, path: str = "f") -> set[bytes | None]:
    found = states(machine.log, model)
    return {state.tree.content(path) for state in found if state.promises}


def replaced(*, fsync_file: bool) -> Simulated:
    machine = Simulated(Tree.of({"f": b"old"}))
    put(machine, "tmp", fsync=fsync_file)
    machine.rename("tmp", "f")
    return machine


def renamed_to_new_name(*, fsync_file: bool) -> Simulated:
    machine = Simulated()
    put(machine, "tmp", fsync=fsync_file)
    machine.rename("tmp", "f")
    return machine


@pytest.mark.parametrize("model", ["posix", "xfs", "ext4-writeback", "btrfs", "f2fs", "ntfs"])
def test_rename_without_fsync_may_leave_an_empty_file(model: str) -> None:
    assert b"" in outcomes(replaced(fsync_file=False), model)
    assert b"" in outcomes(renamed_to_new_name(fsync_file=False), model)


def test_ext4_orders_replace_by_rename_but_not_rename_to_a_new_name() -> None:
    assert outcomes(replaced(fsync_file=False), "ext4-ordered") == {b"old", NEW}
    fresh = outcomes(renamed_to_new_name(fsync_file=False), "ext4-ordered")
    assert fresh == {None, b"", ZEROS, NEW}


@pytest.mark.parametrize("model", ALL)
def test_fsync_then_rename_is_atomic_everywhere(model: str) -> None:
    assert outcomes(replaced(fsync_file=True), model) == {b"old", NEW}
    assert outcomes(renamed_to_new_name(fsync_file=True), model) == {None, NEW}


@pytest.mark.parametrize("model", ALL)
def test_without_fsync_of_the_directory_a_rename_is_not_durable(model: str) -> None:
    machine = replaced(fsync_file=True)
    machine.promise("f is new")
    assert after_promise(machine, model) == {b"old", NEW}


@pytest.mark.parametrize("model", ALL)
def test_strict_is_durable_everywhere(model: str) -> None:
    machine = replaced(fsync_file=True)
    sync(machine, "/")
    machine.promise("f is new")
    assert after_promise(machine, model) == {NEW}


@pytest.mark.parametrize("model", ALL)
def test_a_name_is_durable_with_the_file_but_on_posix(model: str) -> None:
    machine = Simulated()
    put(machine, "f", fsync=True)
    machine.promise("f is there")
    lost_name: set[bytes | None] = {None} if model == "posix" else set()
    assert after_promise(machine, model) == {NEW} | lost_name


@pytest.mark.parametrize("model", ALL)
def test_fsync_after_rename_is_too_late(model: str) -> None:
    machine = replaced(fsync_file=False)
    sync(machine, "f")
    machine.promise("f is new")
    bad = set() if model == "ext4-ordered" else {b""}
    assert outcomes(machine, model) >= {b"old", NEW} | bad
    assert after_promise(machine, model) == {NEW} | ({b"old"} if model == "posix" else set())


@pytest.mark.parametrize("model", ALL)
def test_unlink_before_the_link_is_durable_loses_the_file_on_posix_only(model: str) -> None:
    machine = Simulated(Tree.of({"a": NEW}))
    machine.link("a", "b")
    machine.unlink("a")
    nothing_left = any(not state.tree for state in states(machine.log, model))
    assert nothing_left == (model == "posix")


@pytest.mark.parametrize("model", ALL)
def test_unlink_of_the_old_before_the_new_is_durable(model: str) -> None:
    """Only where names are not kept in order can the deletion overtake."""
    machine = Simulated(Tree.of({"old": b"content"}))
    put(machine, "new", fsync=True)
    machine.unlink("old")
    nothing_left = any(not state.tree for state in states(machine.log, model))
    assert nothing_left == (model == "posix")


def batch(*, in_order: bool = True) -> Simulated:
    """git's batch: write out, one fsync of a file made for it, then the name that matters."""
    machine = Simulated(Tree.of({"objects/keep": b""}))
    if in_order:
        put(machine, "objects/f", pages=True)
        put(machine, "objects/dummy", b"", fsync=True)
    else:
        put(machine, "objects/dummy", b"", fsync=True)
        put(machine, "objects/f", pages=True)
    machine.promise("f is there")
    return machine


@pytest.mark.parametrize("model", IN_ORDER)
def test_one_fsync_carries_data_written_out_before_where_there_is_one_log(model: str) -> None:
    assert after_promise(batch(), model, "objects/f") == {NEW}
    assert after_promise(batch(in_order=False), model, "objects/f") >= {NEW, None}


@pytest.mark.parametrize("model", ["posix", "btrfs", "f2fs"])
def test_one_fsync_carries_nothing_where_files_are_synced_one_by_one(model: str) -> None:
    assert after_promise(batch(), model, "objects/f") >= {NEW, None, b""}


def two_files(*, second: Callable[[Simulated], None]) -> Simulated:
    machine = Simulated()
    put(machine, "f")
    second(machine)
    machine.promise("done")
    return machine


@pytest.mark.parametrize("model", ALL)
def test_fsync_of_one_file_does_not_bring_the_data_of_another(model: str) -> None:
    machine = two_files(second=lambda machine: put(machine, "g", fsync=True))
    found = after_promise(machine, model)
    assert b"" in found
    assert (None in found) == (model in ("posix", "btrfs", "f2fs"))


@pytest.mark.parametrize("model", ALL)
def test_syncfs_brings_everything(model: str) -> None:
    def syncfs(machine: Simulated) -> None:
        descriptor = machine.open("/", os.O_RDONLY)
        machine.sync_filesystem(descriptor)

    assert after_promise(two_files(second=syncfs), model) == {NEW}


@pytest.mark.parametrize("model", ALL)
def test_sync_file_range_alone_promises_nothing(model: str) -> None:
    machine = Simulated()
    put(machine, "f", pages=True)
    machine.promise("f is there")
    assert after_promise(machine, model) >= {None, b"", NEW}


def written_out_then_named(*, flushed: bool) -> Simulated:
    machine = Simulated(Tree.of({"other": b""}))
    put(machine, "tmp", pages=True)
    if flushed:
        sync(machine, "other")
    machine.rename("tmp", "f")
    return machine


@pytest.mark.parametrize("model", IN_ORDER)
def test_a_name_can_be_ahead_of_written_out_data_where_a_commit_flushes_no_device(
    model: str,
) -> None:
    """What the one flush of git's batch is for, on the two filesystems that git names."""
    found = outcomes(written_out_then_named(flushed=False), model)
    assert (b"" in found) == (model in ("ntfs", "apfs"))
    assert outcomes(written_out_then_named(flushed=True), model) == {None, NEW}


def test_f2fs_fsync_of_a_directory_is_a_checkpoint_but_brings_no_data() -> None:
    machine = two_files(second=lambda machine: sync(machine, "/"))
    assert after_promise(machine, "f2fs") == {b"", ZEROS, NEW}


def test_f2fs_checkpoint_has_what_was_written_out() -> None:
    machine = Simulated()
    put(machine, "f", pages=True)
    sync(machine, "/")
    machine.promise("f is there")
    assert after_promise(machine, "f2fs") == {NEW}


def name_taken_over() -> Simulated:
    """xfstests generic/342: rename a file away, make a new one of its name, fsync that one."""
    machine = Simulated(Tree.of({"a": b"first"}))
    machine.rename("a", "b")
    put(machine, "a", b"second", fsync=True)
    machine.promise("a is second")
    return machine


@pytest.mark.parametrize("model", ALL)
def test_a_file_renamed_away_survives_the_fsync_of_its_successor_but_on_f2fs(model: str) -> None:
    found = [state.tree for state in states(name_taken_over().log, model) if state.promises]
    first_is_lost = any(
        tree.content("b") is None and tree.content("a") != b"first" for tree in found
    )
    assert first_is_lost == (model in ("posix", "f2fs"))


@pytest.mark.parametrize("model", IN_ORDER)
def test_fsync_of_a_renamed_file_commits_its_new_name(model: str) -> None:
    machine = Simulated(Tree.of({"a": b"first", "d/keep": b""}))
    machine.rename("a", "d/b")
    sync(machine, "d/b")
    machine.promise("moved")
    assert after_promise(machine, model, "d/b") == {b"first"}


@pytest.mark.parametrize("model", ALL)
def test_fsync_of_a_file_in_a_renamed_directory(model: str) -> None:
    """The directory's new name goes along only where its record lies before one of the file's."""
    machine = Simulated(Tree.of({"d/f": b"first"}))
    machine.rename("d", "e")
    append(machine, "e/f", b", second")
    sync(machine, "e/f")
    machine.promise("e/f is longer")
    found = {
        (state.tree.content("e/f"), state.tree.content("d/f"))
        for state in states(machine.log, model)
        if state.promises
    }
    whole = b"first, second"
    there = {(whole, None)}
    assert found == (there if model in IN_ORDER else there | {(None, whole)})


@pytest.mark.parametrize("model", IN_ORDER)
def test_fsync_of_an_unchanged_file_commits_nothing(model: str) -> None:
    machine = Simulated(Tree.of({"d/f": b"first"}))
    machine.rename("d", "e")
    sync(machine, "e/f")
    machine.promise("")
    assert after_promise(machine, model, "e/f") == {b"first", None}


@pytest.mark.parametrize("model", ALL)
def test_append_to_a_block_that_is_there(model: str) -> None:
    """The size may be recorded without the data: zeros, unless it waits for the data's I/O."""
    machine = Simulated(Tree.of({"f": b"old "}))
    append(machine, "f", b"new")
    expected = {b"old ", b"old new"}
    if model not in ("xfs", "btrfs", "apfs"):
        expected.add(b"old \0\0\0")
    assert outcomes(machine, model) == expected


@pytest.mark.parametrize("model", ["ext4-ordered", "xfs", "f2fs", "posix"])
def test_a_long_append_may_be_torn(model: str) -> None:
    machine = Simulated(Tree.of({"f": b"old "}))
    append(machine, "f", b"n" * 8192)
    found = outcomes(machine, model)
    assert any(each and b"n" in each and each != b"old " + b"n" * 8192 for each in found)


@pytest.mark.parametrize("model", ALL)
def test_overwriting_in_place_is_torn_but_where_it_is_copied(model: str) -> None:
    machine = Simulated(Tree.of({"f": b"o" * 1024}))
    overwrite(machine, "f", b"n" * 1024)
    found = outcomes(machine, model)
    torn = b"n" * 512 + b"o" * 512
    assert found >= {b"o" * 1024, b"n" * 1024}
    assert (torn in found) == (model != "btrfs")


@pytest.mark.parametrize("model", ALL)
def test_truncate_then_write_may_leave_nothing(model: str) -> None:
    machine = Simulated(Tree.of({"f": b"old"}))
    descriptor = machine.open("f", os.O_WRONLY | os.O_TRUNC)
    machine.write(descriptor, NEW)
    machine.close(descriptor)
    machine.make_directory("d")
    assert outcomes(machine, model) >= {b"old", b"", NEW}
    closed_and_committed = {
        state.tree.content("f") for state in states(machine.log, model) if "d" in state.tree
    }
    assert (b"" in closed_and_committed) == (model != "ext4-ordered")


@pytest.mark.parametrize("model", ["ext4-ordered", "ext4-writeback", "xfs"])
def test_an_unrelated_commit_may_come_between_any_two_operations(model: str) -> None:
    """Somebody else's fsync commits our rename without our data: no operation of ours is needed."""
    machine = renamed_to_new_name(fsync_file=False)
    assert any(
        state.tree.content("f") == b"" and "tmp" not in state.tree
        for state in states(machine.log, model)
    )


def test_posix_rename_between_directories_may_leave_both_names_or_none() -> None:
    machine = Simulated(Tree.of({"a/f": NEW, "b/keep": b""}))
    machine.rename("a/f", "b/f")
    found = {("a/f" in s.tree, "b/f" in s.tree) for s in states(machine.log, "posix")}
    assert found == {(True, False), (True, True), (False, True), (False, False)}


@pytest.mark.parametrize("model", IN_ORDER)
def test_fdatasync_commits_a_new_size_but_no_new_name(model: str) -> None:
    machine = Simulated(Tree.of({"a": b"old"}))
    machine.rename("a", "f")
    sync(machine, "f", data_only=True)
    machine.promise("renamed, synced")
    assert after_promise(machine, model) == {b"old", None}
    append(machine, "f", b" and new")
    sync(machine, "f", data_only=True)
    machine.promise("longer, synced")
    longer = [state for state in states(machine.log, model) if len(state.promises) == 2]
    assert {state.tree.content("f") for state in longer} == {b"old and new"}


@pytest.mark.parametrize("model", IN_ORDER)
def test_overwriting_is_no_change_that_an_fsync_commits_names_for(model: str) -> None:
    """Timestamps are coarse: an overwrite may have changed no metadata at all."""
    machine = Simulated(Tree.of({"a": b"old", "f": b"old"}))
    machine.rename("a", "b")
    overwrite(machine, "f", b"new")
    sync(machine, "f")
    machine.promise("f is new")
    assert after_promise(machine, model) == {b"new"}
    assert after_promise(machine, model, "b") == {b"old", None}


def test_btrfs_forgets_at_a_commit_which_files_were_synced() -> None:
    """Seen on a real kernel, with git: docs/findings.md, section 4."""
    machine = Simulated(Tree.of({"d/other": b""}))
    put(machine, "d/first.tmp", fsync=True)
    machine.rename("d/first.tmp", "d/first")
    put(machine, "second.tmp", fsync=True)
    machine.rename("second.tmp", "second")

    survivors = {
        frozenset(path for path in ("d/first", "second") if path in state.tree)
        for state in states(machine.log, "btrfs")
        if state.tree.content("second") == NEW
    }

    assert survivors == {frozenset({"second"}), frozenset({"d/first", "second"})}


def test_btrfs_logs_the_later_name_of_a_synced_file_with_any_fsync() -> None:
    machine = Simulated()
    machine.make_directory("unrelated")
    put(machine, "tmp", fsync=True)
    machine.rename("tmp", "f")
    put(machine, "other", fsync=True)
    machine.promise("")
    found = {
        ("unrelated" in state.tree, "f" in state.tree)
        for state in states(machine.log, "btrfs")
        if state.promises
    }
    assert found == {(False, False), (False, True), (True, False), (True, True)}


@pytest.mark.parametrize("model", ["btrfs", "f2fs"])
def test_fsync_of_a_file_brings_the_new_directories_above_it(model: str) -> None:
    machine = Simulated()
    machine.make_directory("d")
    machine.make_directory("d/e")
    put(machine, "d/e/f", fsync=True)
    machine.promise("f is there")
    assert after_promise(machine, model, "d/e/f") == {NEW}


@pytest.mark.parametrize("model", ALL)
def test_fsync_of_a_directory_brings_its_names(model: str) -> None:
    machine = Simulated(Tree.of({"d/keep": b""}))
    machine.make_directory("elsewhere")
    put(machine, "d/f", fsync=True)
    machine.link("d/f", "d/g")
    machine.unlink("d/f")
    sync(machine, "d")
    machine.promise("d has g")
    found = [state.tree for state in states(machine.log, model) if state.promises]
    assert {(tree.content("d/f"), tree.content("d/g")) for tree in found} == {(None, NEW)}
    elsewhere = {"elsewhere" in tree for tree in found}
    assert elsewhere == ({True, False} if model in ("posix", "btrfs") else {True})


def test_the_heuristic_for_truncated_files_ends_with_the_first_close() -> None:
    machine = Simulated(Tree.of({"f": b"old"}))
    writer = machine.open("f", os.O_WRONLY | os.O_TRUNC)
    machine.close(machine.open("f", os.O_RDONLY))
    machine.write(writer, NEW)
    machine.close(writer)
    machine.make_directory("d")
    found = {s.tree.content("f") for s in states(machine.log, "ext4-ordered") if "d" in s.tree}
    assert b"" in found


@pytest.mark.parametrize("model", ALL)
def test_a_lost_truncation_may_leave_zeros_behind_its_end(model: str) -> None:
    """The rest of the page is zeroed in memory, and written back before the size is recorded."""
    machine = Simulated(Tree.of({"f": b"old content"}))
    descriptor = machine.open("f", os.O_WRONLY)
    machine.truncate(descriptor, 3)
    zeros = set() if model == "btrfs" else {b"old" + bytes(8)}
    assert outcomes(machine, model) == {b"old content", b"old"} | zeros
    machine.fsync(descriptor)
    machine.promise("short")
    assert after_promise(machine, model) == {b"old"}


def test_f2fs_may_have_a_name_and_no_data_while_the_fsync_is_under_way() -> None:
    machine = Simulated()
    machine.make_directory("unrelated")
    put(machine, "f", fsync=True)
    machine.promise("f is there")
    found = states(machine.log, "f2fs")
    early = [s for s in found if "unrelated" not in s.tree and s.tree.content("f") == ZEROS]
    assert early
    assert all(not state.promises for state in early)
    assert after_promise(machine, "f2fs") == {NEW}


def may_be_lost(machine: Simulated, path: str) -> bool:
    """Whether f2fs, as its kernel is, may lose a file at this point."""
    now = object()
    machine.promise(now)
    found = crash_states(machine.log, MODELS["f2fs"])
    return any(now in state.promises and state.tree.content(path) != NEW for state in found)


def test_f2fs_may_lose_the_first_fsync_after_a_checkpoint_until_the_next_sync() -> None:
    """Seen on a real kernel, and in its source: docs/findings.md, section 8."""
    machine = Simulated(Tree.of({"other": b"old"}))
    put(machine, "f", fsync=True)
    assert may_be_lost(machine, "f")
    put(machine, "g", fsync=True)
    assert not may_be_lost(machine, "f")
    assert may_be_lost(machine, "g")
    sync(machine, "/")
    assert not may_be_lost(machine, "g")


def test_f2fs_fsync_before_a_rename_keeps_the_rename_whole() -> None:
    """The checkpoint that has the rename has the nodes of everything synced before it."""
    found = crash_states(replaced(fsync_file=True).log, MODELS["f2fs"])
    assert {state.tree.content("f") for state in found} == {b"old", NEW}


def test_posix_directory_is_at_one_place() -> None:
    machine = Simulated(Tree.of({"d/f": b"content"}))
    machine.rename("d", "e")
    machine.rename("e", "g")
    found = {tuple(sorted(state.tree)) for state in states(machine.log, "posix")}
    assert found == {("d", "d/f"), ("e", "e/f"), ("g", "g/f")}


def test_posix_fsync_of_one_directory_leaves_the_other() -> None:
    machine = Simulated(Tree.of({"a/f": NEW, "b/keep": b""}))
    machine.rename("a/f", "b/f")
    sync(machine, "b")
    machine.promise("moved")
    found = {("a/f" in s.tree, "b/f" in s.tree) for s in states(machine.log, "posix") if s.promises}
    assert found == {(True, True), (False, True)}


@pytest.mark.parametrize("model", ALL)
def test_fsync_brings_permission_bits(model: str) -> None:
    machine = Simulated()
    machine.make_directory("unrelated")
    descriptor = machine.open("f", os.O_WRONLY | os.O_CREAT, 0o600)
    machine.change_mode(descriptor, 0o444)
    machine.fsync(descriptor)
    machine.promise("read-only")
    nodes = [state.tree.get("f") for state in states(machine.log, model) if state.promises]
    assert {node.mode for node in nodes if isinstance(node, File)} == {0o444}
