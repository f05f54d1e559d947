"""What any kind of machine must do: inherit `MachineConformance` and provide the fixture `machine`.

Not collected by itself. The tests say nothing about how a machine works, only what its guests show.
"""

import os
import threading
from collections.abc import Iterator

import pytest

from crashsim.faults.disturbances import DISTURBANCE_DIRECTORY, Kind, make
from crashsim.machines.failures import AgentError, Cause, GuestDied, MountFailed
from crashsim.machines.filesystems import FILESYSTEMS, Filesystem
from crashsim.machines.guest import AgentGuest
from crashsim.machines.hardware import CRASH_DISK_BYTES
from crashsim.machines.protocol import Guest, Machine, Mount
from crashsim.machines.tree import NodeKind
from tests.support.sparse_disk import SparseDisk

EXT4 = FILESYSTEMS["ext4"]
ROOT = "/mnt/0"
FSYNCS = make([Kind.FSYNC], seed=1)[0].specification(ROOT)


def text(guest: Guest, command: str, **options: object) -> str:
    """What a shell command prints; it must succeed."""
    result = guest.run(["sh", "-c", command], **options)  # type: ignore[arg-type]
    assert result.returncode == 0, result
    return result.stdout.decode()


def formatted(guest: Guest, filesystem: Filesystem, disk: SparseDisk) -> Mount:
    """Make a filesystem on slot 0, backed by `disk`; how to mount it."""
    guest.attach(0, disk)
    guest.format(0, filesystem.fstype, filesystem.mkfs_argv)
    return filesystem.mount(0)


@pytest.fixture
def disk() -> SparseDisk:
    return SparseDisk(CRASH_DISK_BYTES)


class SharedGuest:
    """Tests that leave the guest as they found it share one."""

    @pytest.fixture(scope="class")
    @classmethod
    def guest(cls, machine: Machine) -> Iterator[Guest]:
        with machine.start() as guest:
            yield guest


class CommandConformance(SharedGuest):
    """Running commands."""

    def test_a_command_gives_its_outputs_and_its_status(self, guest: Guest) -> None:
        result = guest.run(["sh", "-c", "echo out; echo err >&2; exit 7"])

        assert (result.returncode, result.stdout, result.stderr) == (7, b"out\n", b"err\n")
        assert not result.timed_out
        assert 0 < result.seconds < 60

    def test_a_command_that_is_killed_gives_minus_its_signal(self, guest: Guest) -> None:
        assert guest.run(["sh", "-c", "kill -9 $$"]).returncode == -9

    def test_arguments_environment_input_and_directory_arrive_byte_for_byte(
        self, guest: Guest
    ) -> None:
        odd = os.fsdecode(b"a b\xff'\"\n$(id)\xc3\xa4")

        result = guest.run(
            ["sh", "-c", 'pwd; printf "%s|%s|" "$1" "$VALUE"; cat', "sh", odd],
            cwd="/usr",
            env={"VALUE": odd},
            stdin=b"\0in\n" * 100_000,
        )

        expected = b"/usr\n" + os.fsencode(odd) + b"|" + os.fsencode(odd) + b"|"
        assert result.stdout == expected + b"\0in\n" * 100_000

    def test_output_is_cut_at_its_limit_and_nobody_blocks(self, guest: Guest) -> None:
        result = guest.run(
            ["sh", "-c", "head -c 3000000 /dev/zero; head -c 2000 /dev/zero >&2"],
            output_limit_bytes=1000,
        )

        assert (result.returncode, len(result.stdout), len(result.stderr)) == (0, 1000, 1000)

    def test_no_such_program_and_no_such_directory_are_errors_of_the_agent(
        self, guest: Guest
    ) -> None:
        with pytest.raises(AgentError) as missing:
            guest.run(["no-such-program"])
        with pytest.raises(AgentError) as nowhere:
            guest.run(["true"], cwd="/no/such/directory")

        assert missing.value.errno_name == nowhere.value.errno_name == "ENOENT"

    def test_a_timeout_kills_all_that_the_command_started(self, guest: Guest) -> None:
        # A child, a grandchild in a session of its own whose parent is gone, and one that ignores
        # every signal that can be ignored.
        result = guest.run(
            [
                "sh",
                "-c",
                "sleep 4321 & (setsid sh -c 'sleep 4321 & sleep 4321' &) ; "
                "trap '' HUP INT TERM; echo started; sleep 4321",
            ],
            timeout_seconds=3,
        )

        assert result.timed_out
        assert result.returncode == -9
        assert result.stdout == b"started\n"
        # The brackets keep the command that looks from finding itself.
        assert text(guest, "grep -lz '^432[1]' /proc/[0-9]*/cmdline || echo none") == "none\n"

    def test_a_command_ends_though_its_background_process_keeps_the_output_open(
        self, guest: Guest
    ) -> None:
        result = guest.run(["sh", "-c", "sleep 8765 & echo $!"], timeout_seconds=30)

        assert not result.timed_out
        process = int(result.stdout)
        assert text(guest, f"kill {process} && echo was running") == "was running\n"

    def test_only_one_command_runs_at_a_time(self, guest: Guest) -> None:
        running = threading.Event()
        refusals = []

        def second() -> None:
            running.wait(60)
            try:
                guest.run(["true"])
            except AgentError as error:
                refusals.append(str(error))
            guest.write_file("/tmp/go-on", b"")

        thread = threading.Thread(target=second)
        thread.start()
        text(
            guest,
            "crashsim-mark running; until [ -e /tmp/go-on ]; do sleep 0.05; done",
            on_mark=lambda _: running.set(),
        )
        thread.join()

        assert len(refusals) == 1
        assert "one at a time" in refusals[0]

    def test_files_are_written_with_their_mode_and_replaced(self, guest: Guest) -> None:
        content = os.urandom(5 << 20)
        guest.write_file("/tmp/file", b"old", 0o600)
        guest.write_file("/tmp/file", content, 0o751)

        node = guest.tree("/tmp").nodes["file"]
        assert (node.mode, node.size_bytes) == (0o751, len(content))
        assert guest.tree("/tmp").read("file") == content

    def test_all_guests_start_at_the_same_time_of_day(self, machine: Machine) -> None:
        times = []
        for _ in range(2):
            with machine.start() as guest:
                times.append(int(text(guest, "date +%s")))

        assert abs(times[0] - times[1]) < 30


class MarkConformance(SharedGuest):
    """`crashsim-mark`."""

    def test_a_mark_is_acknowledged_before_the_program_goes_on(self, guest: Guest) -> None:
        seen = []

        def on_mark(mark: str) -> None:
            # Whatever comes after the mark has not happened yet.
            seen.append((mark, "after" in guest.tree("/run/crashsim-test").nodes))

        text(
            guest,
            "mkdir /run/crashsim-test; cd /run/crashsim-test; crashsim-mark one  two; touch after",
            on_mark=on_mark,
        )

        assert seen == [("one two", False)]
        assert "after" in guest.tree("/run/crashsim-test").nodes

    def test_marks_from_several_programs_at_once_all_arrive_whole(self, guest: Guest) -> None:
        marks: list[str] = []

        text(
            guest,
            "for p in 1 2 3 4 5 6; do (for i in 1 2 3; do crashsim-mark $p $i || exit 1; done) & "
            "done; wait",
            timeout_seconds=120,
            on_mark=marks.append,
        )

        assert sorted(marks) == [f"{p} {i}" for p in range(1, 7) for i in range(1, 4)]
        for program in range(1, 7):
            mine = [mark for mark in marks if mark.startswith(f"{program} ")]
            assert mine == sorted(mine)

    def test_a_mark_has_up_to_64_kib_of_any_bytes_but_newlines(self, guest: Guest) -> None:
        marks: list[str] = []

        # More than 128 KiB is no argument of a program in Linux (execve(2), MAX_ARG_STRLEN).
        text(
            guest,
            'big=$(head -c 65536 /dev/zero | tr "\\0" x); crashsim-mark "$big" && '
            'crashsim-mark "$(printf "\\\\ \\303\\244 \\377 -n %%s")"',
            on_mark=marks.append,
        )

        assert marks == ["x" * 65536, os.fsdecode(b"\\ \xc3\xa4 \xff -n %s")]

    @pytest.mark.parametrize(
        ("argument", "status"),
        [("'a\nb'", 2), ("", 2), ("$(head -c 65537 /dev/zero | tr '\\0' x)", 3)],
        ids=["newline", "empty", "too long"],
    )
    def test_what_cannot_be_a_mark_is_refused_in_the_guest(
        self, guest: Guest, argument: str, status: int
    ) -> None:
        marks: list[str] = []

        result = guest.run(["sh", "-c", f"crashsim-mark {argument}"], on_mark=marks.append)

        assert (result.returncode, marks) == (status, [])
        assert result.stderr.startswith(b"crashsim-mark: ")

    def test_a_mark_fails_where_nothing_is_recorded(self, guest: Guest) -> None:
        result = guest.run(["crashsim-mark", "lost"])

        assert (result.returncode, result.stderr) == (
            3,
            b"crashsim-mark: nothing is being recorded\n",
        )

    def test_programs_killed_in_the_middle_of_a_mark_disturb_no_later_one(
        self, guest: Guest
    ) -> None:
        marks: list[str] = []

        text(
            guest,
            "for i in 1 2 3 4 5 6 7 8; do crashsim-mark victim $i & kill -9 $!; done; wait; "
            "crashsim-mark one && crashsim-mark two",
            timeout_seconds=120,
            on_mark=marks.append,
        )

        assert [mark for mark in marks if not mark.startswith("victim ")] == ["one", "two"]

    def test_an_error_of_the_recorder_comes_out_of_run(self, machine: Machine) -> None:
        class RecorderBroke(Exception):
            pass

        def on_mark(_: str) -> None:
            raise RecorderBroke

        with machine.start() as guest, pytest.raises(RecorderBroke):
            text(guest, "crashsim-mark x", on_mark=on_mark)


class FilesystemConformance(SharedGuest):
    """Disks, mounts and trees."""

    @pytest.mark.parametrize("filesystem", FILESYSTEMS.values(), ids=list(FILESYSTEMS))
    def test_a_tree_is_recovered_as_it_was_written(
        self, guest: Guest, filesystem: Filesystem, disk: SparseDisk
    ) -> None:
        mount = formatted(guest, filesystem, disk)
        guest.mount(mount)
        content = os.urandom(700_000)
        guest.write_file(f"{ROOT}/large", content, 0o640)
        text(
            guest,
            "mkdir -m 0711 d; printf abc >d/small; : >empty; ln -s nowhere/at/all link; "
            "mkfifo pipe; chmod 4755 d/small; truncate -s 5000 sparse; "
            "printf x >\"$(printf 'odd \\377 name')\"",
            cwd=ROOT,
        )
        before = guest.tree(ROOT, exclude=["lost+found"])
        guest.unmount(0)

        recovery = guest.recover(mount, exclude=["lost+found"])
        guest.unmount(0)

        tree = recovery.tree
        assert tree is not None
        assert (recovery.mount_error, recovery.tainted) == ("", False)
        assert recovery.seconds.keys() == {"mount", "tree"}
        assert tree.nodes == before.nodes
        assert tree.identity == before.identity
        assert list(tree.nodes) == sorted(tree.nodes)
        assert {path: (node.kind, node.mode) for path, node in tree.nodes.items()} == {
            "d": (NodeKind.DIRECTORY, 0o711),
            "d/small": (NodeKind.FILE, 0o4755),
            "empty": (NodeKind.FILE, 0o644),
            "large": (NodeKind.FILE, 0o640),
            "link": (NodeKind.SYMLINK, 0o777),
            os.fsdecode(b"odd \xff name"): (NodeKind.FILE, 0o644),
            "pipe": (NodeKind.OTHER, 0o644),
            "sparse": (NodeKind.FILE, 0o644),
        }
        assert tree.read("large") == content
        assert tree.read("d/small") == b"abc"
        assert tree.read("empty") == b""
        assert tree.read("sparse") == bytes(5000)
        assert tree.read("link") is None

    def test_trees_leave_out_and_collect_what_they_are_told(
        self, guest: Guest, disk: SparseDisk
    ) -> None:
        guest.mount(formatted(guest, EXT4, disk))
        text(guest, "mkdir a ab; echo 1 >a/x; echo 2 >ab/x; echo 3 >b", cwd=ROOT)

        tree = guest.tree(ROOT, exclude=["lost+found", "a"], collect=["ab"])
        everything = guest.tree(ROOT)
        guest.unmount(0)

        assert list(tree.nodes) == ["ab", "ab/x", "b"]
        assert tree.read("ab/x") == b"2\n"
        assert everything.read("a/x") == b"1\n"
        assert everything.read("b") == b"3\n"

    def test_contents_are_there_in_every_tree_though_they_travel_once(
        self, guest: Guest, disk: SparseDisk
    ) -> None:
        mount = formatted(guest, EXT4, disk)
        guest.mount(mount)
        guest.write_file(f"{ROOT}/file", b"again and again")
        guest.unmount(0)
        for _ in range(3):
            tree = guest.recover(mount).tree
            guest.unmount(0)
            assert tree is not None
            assert tree.read("file") == b"again and again"

    @pytest.mark.parametrize("filesystem", FILESYSTEMS.values(), ids=list(FILESYSTEMS))
    def test_no_state_leaks_into_the_next_recovery(
        self, guest: Guest, filesystem: Filesystem, disk: SparseDisk
    ) -> None:
        """Two images of one filesystem (same UUID), the older shown after the newer."""
        mount = formatted(guest, filesystem, disk)
        guest.mount(mount)
        guest.write_file(f"{ROOT}/file", b"old")
        guest.unmount(0)
        older = disk.copy()
        guest.mount(mount)
        text(guest, f"rm {ROOT}/file; for i in 1 2 3; do echo $i >{ROOT}/new$i; sync; done")
        guest.unmount(0)
        newer = disk.copy()

        for _ in range(2):
            for image, expected in ((newer, {"new1", "new2", "new3"}), (older, {"file"})):
                guest.attach(0, image.copy())
                recovery = guest.recover(mount, exclude=["lost+found"])
                assert recovery.mount_error == "", recovery
                guest.unmount(0)
                assert recovery.tree is not None
                assert set(recovery.tree.nodes) == expected

    @pytest.mark.parametrize("filesystem", FILESYSTEMS.values(), ids=list(FILESYSTEMS))
    def test_nor_does_a_failed_mount_leak(
        self, guest: Guest, filesystem: Filesystem, disk: SparseDisk
    ) -> None:
        """A good image, mounted after an empty disk and after a mount that its options break."""
        mount = formatted(guest, filesystem, disk)
        guest.attach(0, SparseDisk(CRASH_DISK_BYTES))
        failed = guest.recover(mount)
        guest.attach(0, disk)
        refused = guest.recover(Mount(0, mount.fstype, "no-such-option=1"))
        recovered = guest.recover(mount)
        guest.unmount(0)

        assert failed.tree is None
        assert failed.mount_error == "EINVAL" or failed.mount_error == "EUCLEAN"
        assert refused.tree is None
        assert refused.mount_error == "EINVAL"
        assert refused.kernel_log
        assert recovered.tree is not None
        assert "no-such-option" not in recovered.kernel_log

    def test_mount_errors_have_their_errno(self, guest: Guest, disk: SparseDisk) -> None:
        mount = formatted(guest, EXT4, disk)

        with pytest.raises(MountFailed) as unknown:
            guest.mount(Mount(0, "no-such-filesystem"))
        guest.mount(mount)
        with pytest.raises(MountFailed) as busy:
            guest.mount(Mount(0, "xfs"))
        # Neither says anything about what is on the disk, so neither is a recovery that failed.
        for wrong in (mount, Mount(0, "no-such-filesystem")):
            with pytest.raises(MountFailed):
                guest.recover(wrong)
        guest.unmount(0)
        with pytest.raises(AgentError) as not_mounted:
            guest.unmount(0)

        assert unknown.value.errno_name == "ENODEV"
        assert busy.value.errno_name == "EBUSY"
        assert not_mounted.value.errno_name in ("EINVAL", "ENOENT")

    def test_mount_options_are_flags_or_for_the_filesystem(
        self, guest: Guest, disk: SparseDisk
    ) -> None:
        formatted(guest, EXT4, disk)

        guest.mount(Mount(0, "ext4", "ro,noatime,data=writeback,commit=7"))
        shown = text(guest, f"grep ' {ROOT} ' /proc/mounts").split()[3].split(",")
        guest.unmount(0)

        assert {"ro", "noatime", "data=writeback", "commit=7"} <= set(shown)

    def test_a_disk_in_use_cannot_be_unmounted(self, guest: Guest, disk: SparseDisk) -> None:
        guest.mount(formatted(guest, EXT4, disk))
        process = int(text(guest, f"cd {ROOT}; sleep 999 >/dev/null 2>&1 & echo $!"))

        with pytest.raises(AgentError) as busy:
            guest.unmount(0)
        text(guest, f"kill {process}; while kill -0 {process} 2>/dev/null; do sleep 0.05; done")
        guest.unmount(0)

        assert busy.value.errno_name == "EBUSY"

    def test_mkfs_that_fails_tells_its_output(self, guest: Guest, disk: SparseDisk) -> None:
        guest.attach(0, disk)
        with pytest.raises(AgentError, match="wrong with it"):
            guest.format(0, "ext4", ["sh", "-c", "echo wrong with it >&2; exit 1"])

    def test_disturbances_start_and_are_gone_after_calm(
        self, guest: Guest, disk: SparseDisk
    ) -> None:
        guest.mount(formatted(guest, EXT4, disk))
        number = guest.disturb(FSYNCS)
        alive = text(
            guest, f"until [ -s {ROOT}/{DISTURBANCE_DIRECTORY}/log ]; do sleep 0.05; done; ls /proc"
        )
        guest.calm()
        gone = text(guest, "ls /proc")
        guest.unmount(0)

        assert str(number) in alive.split()
        assert str(number) not in gone.split()

    def test_a_command_that_times_out_leaves_disturbances_alone(
        self, guest: Guest, disk: SparseDisk
    ) -> None:
        guest.mount(formatted(guest, EXT4, disk))
        number = guest.disturb(FSYNCS)
        assert guest.run(["sleep", "1000"], timeout_seconds=1).timed_out
        assert str(number) in text(guest, "ls /proc").split()
        guest.calm()
        guest.unmount(0)


class DeathConformance:
    """Guests that die, each in its own way. All of them are told, none is waited for."""

    @pytest.fixture
    def guest(self, machine: Machine) -> Iterator[Guest]:
        with machine.start() as guest:
            yield guest

    def test_a_panic_is_told_with_the_console(self, guest: Guest) -> None:
        with pytest.raises(GuestDied) as died:
            guest.run(["sh", "-c", "echo c >/proc/sysrq-trigger"])

        assert died.value.cause is Cause.PANIC
        assert any("sysrq triggered crash" in line for line in died.value.console)
        with pytest.raises(GuestDied):
            guest.run(["true"])

    def test_an_agent_that_is_killed_is_told(self, guest: Guest) -> None:
        with pytest.raises(GuestDied) as died:
            guest.run(["sh", "-c", "kill -9 $PPID"])

        assert died.value.cause is Cause.AGENT_GONE

    def test_a_guest_that_does_not_answer_is_told(self, guest: Guest) -> None:
        agent = int(text(guest, "echo $PPID"))
        stopper = f"(sleep 0.2; kill -STOP {agent}) >/dev/null 2>&1 &"
        text(guest, stopper)

        with pytest.raises(GuestDied) as died:
            call_until_it_dies(guest)

        assert died.value.cause is Cause.HUNG

    def test_calls_after_kill_say_so_and_kill_can_be_repeated(self, guest: Guest) -> None:
        guest.kill()
        guest.kill()

        with pytest.raises(GuestDied) as died:
            guest.run(["true"])
        assert died.value.cause is Cause.ENDED

    def test_kill_ends_a_call_of_another_thread(self, guest: Guest) -> None:
        ends: list[Cause] = []
        running = threading.Event()

        def wait_for_it() -> None:
            try:
                text(guest, "crashsim-mark x; sleep 1000", on_mark=lambda _: running.set())
            except GuestDied as error:
                ends.append(error.cause)

        thread = threading.Thread(target=wait_for_it)
        thread.start()
        assert running.wait(60)
        guest.kill()
        thread.join(30)

        assert ends == [Cause.ENDED]

    def test_a_warning_of_the_kernel_taints_the_recovery(
        self, guest: Guest, disk: SparseDisk
    ) -> None:
        mount = formatted(guest, EXT4, disk)
        assert not guest.recover(mount).tainted
        guest.unmount(0)
        # Bit 9 is "the kernel has warned"; root may set it (admin-guide/sysctl/kernel).
        guest.write_file("/proc/sys/kernel/tainted", b"512")

        assert guest.recover(mount).tainted

    def test_two_guests_at_once_share_nothing(self, machine: Machine, guest: Guest) -> None:
        with machine.start() as other:
            for each, content in ((guest, b"one"), (other, b"two")):
                each.write_file("/etc/crashsim-test", content)
            first, second = (each.run(["cat", "/etc/crashsim-test"]) for each in (guest, other))
            other.kill()
            assert text(guest, "echo still here") == "still here\n"

        assert (first.stdout, second.stdout) == (b"one", b"two")

    def test_nothing_of_a_guest_reaches_the_next(self, machine: Machine, guest: Guest) -> None:
        text(guest, "echo x >/etc/left-behind; sync; rm -rf /usr/bin/git")
        guest.kill()

        with machine.start() as second:
            assert text(second, "ls /etc/left-behind 2>/dev/null || echo nothing") == "nothing\n"
            assert text(second, "git --version").startswith("git version")


def call_until_it_dies(guest: Guest) -> None:
    """Calls that take no time while the guest is alive, made with little patience."""
    assert isinstance(guest, AgentGuest)
    while True:
        guest.hello(timeout_seconds=5)
