"""The simulated operating system, where it cannot be compared with the real one."""

import errno
import os

import pytest

from crashsim.model.operations import Entry, Resize, Scope, Sync, Write
from crashsim.model.simulated import WRITE_OUT_AND_WAIT, Simulated
from crashsim.model.tree import Directory, File, Symlink, Tree
from impl.durability.port import WRITE_OUT, Port, read_file, write_all
from tests.support.model_calls import put


def test_it_is_a_port_and_the_helpers_of_impl_work_on_it() -> None:
    port: Port = Simulated(Tree.of({"d/f": b"content"}))
    descriptor = port.open("d/g", os.O_RDWR | os.O_CREAT)
    write_all(port, descriptor, memoryview(b"more"))
    assert read_file(port, "/d/g") == b"more"
    assert read_file(port, "d/f") == b"content"
    assert WRITE_OUT == WRITE_OUT_AND_WAIT


def test_a_deleted_file_lives_on_while_it_is_open() -> None:
    machine = Simulated(Tree.of({"f": b"content"}))
    descriptor = machine.open("f", os.O_RDWR)
    machine.unlink("f")
    assert machine.fstat(descriptor).st_nlink == 0
    assert machine.pread(descriptor, 7, 0) == b"content"
    assert machine.write(descriptor, b"CON") == 3
    number = machine.fstat(descriptor).st_ino
    machine.close(descriptor)
    assert number not in machine.inodes
    assert dict(machine.tree()) == {}


def test_a_mapping_outlives_its_descriptor_and_a_truncation() -> None:
    machine = Simulated(Tree.of({"f": b"content"}))
    descriptor = machine.open("f", os.O_RDWR)
    mapping = machine.map(descriptor, 4)
    machine.truncate(descriptor, 0)
    machine.close(descriptor)
    assert bytes(mapping) == b"cont"


def test_hard_links_survive_a_boot() -> None:
    first = Simulated()
    put(first, "f")
    first.link("f", "g")
    second = Simulated(first.tree())
    assert second.stat("f").st_ino == second.stat("g").st_ino
    assert second.stat("f").st_nlink == 2
    descriptor = second.open("f", os.O_WRONLY | os.O_TRUNC)
    second.write(descriptor, b"other")
    assert second.tree().content("g") == b"other"


def test_a_boot_keeps_everything_that_a_tree_has() -> None:
    tree = Tree.of({"d/f": File(b"x", 0o400), "e": Directory(0o700), "l": Symlink("d/f")})
    machine = Simulated(tree)
    assert dict(machine.tree()) == dict(tree)
    assert machine.stat("l").st_size == 1
    assert machine.stat("d").st_nlink == 2
    assert machine.stat("/").st_nlink == 4
    new = machine.open("d/new", os.O_CREAT | os.O_WRONLY)
    assert machine.fstat(new).st_ino not in tree.inodes.values()


def test_time_goes_on_and_is_the_same_every_time() -> None:
    def times() -> tuple[int, int]:
        machine = Simulated()
        put(machine, "f")
        before = machine.stat("f").st_mtime_ns
        put(machine, "g")
        return before, machine.stat("g").st_mtime_ns

    assert times() == times()
    assert times()[0] < times()[1]


def test_the_log_is_by_inode() -> None:
    machine = Simulated(Tree.of({"f": b"old"}))
    inode = machine.stat("f").st_ino
    descriptor = machine.open("f", os.O_RDWR | os.O_APPEND)
    machine.rename("f", "g")
    machine.write(descriptor, b"er")
    machine.truncate(descriptor, 4)
    machine.fdatasync(descriptor)
    rename, write, resize, sync = machine.operations
    assert isinstance(rename, Entry)
    assert (rename.removed, rename.added) == ((1, "f"), (1, "g"))
    assert isinstance(write, Write)
    assert (write.inode, write.offset, write.data, write.extends) == (inode, 3, b"er", True)
    assert isinstance(resize, Resize)
    assert (resize.size_before, resize.length) == (5, 4)
    assert isinstance(sync, Sync)
    assert (sync.inode, sync.scope) == (inode, Scope.DATA)
    assert [operation.number for operation in machine.operations] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("offset", "count", "flags", "is_noted"),
    [(0, 0, 7, True), (0, 11, 7, True), (0, 10, 7, False), (1, 0, 7, False), (0, 0, 2, False)],
)
def test_only_a_complete_writeout_is_noted(
    offset: int, count: int, flags: int, is_noted: bool
) -> None:
    machine = Simulated()
    put(machine, "f")
    descriptor = machine.open("f", os.O_RDONLY)
    machine.sync_file_range(descriptor, offset, count, flags)
    assert bool(machine.log.syncs) == is_noted


def test_what_changes_nothing_is_not_noted() -> None:
    machine = Simulated(Tree.of({"f": b"old"}))
    descriptor = machine.open("f", os.O_RDWR)
    machine.write(descriptor, b"")
    machine.truncate(descriptor, 3)
    machine.change_mode(descriptor, 0o644)
    machine.rename("f", "f")
    machine.close(descriptor)
    assert machine.operations == []


def test_errors_name_the_path() -> None:
    machine = Simulated()
    with pytest.raises(FileNotFoundError) as caught:
        machine.open("d/f", os.O_RDONLY)
    assert (caught.value.filename, caught.value.errno) == ("d/f", errno.ENOENT)


def test_a_loop_of_links_ends() -> None:
    machine = Simulated(Tree.of({"a": Symlink("b"), "b": Symlink("a")}))
    with pytest.raises(OSError, match="symbolic links") as caught:
        machine.stat("a")
    assert caught.value.errno == errno.ELOOP


def test_a_mapping_longer_than_the_file_is_refused_as_python_does() -> None:
    machine = Simulated(Tree.of({"f": b"old"}))
    with pytest.raises(ValueError, match="greater than file size"):
        machine.map(machine.open("f", os.O_RDONLY), 4)


def test_a_replaced_file_is_gone() -> None:
    machine = Simulated(Tree.of({"f": b"old", "g": b"new"}))
    replaced = machine.stat("f").st_ino
    machine.rename("g", "f")
    assert replaced not in machine.inodes
    machine.link("f", "g")
    machine.unlink("f")
    assert machine.stat("g").st_nlink == 1
