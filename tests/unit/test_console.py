"""The serial console: what counts as trouble, and when it is told."""

import queue
import socket
from collections.abc import Iterator

import pytest

from crashsim.machines.console import LINE_BYTES_MAX, TAIL_LINES, Console, trouble
from crashsim.machines.failures import Cause


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        (b"[   12.345678] Kernel panic - not syncing: sysrq triggered crash", Cause.PANIC),
        (b"[    1.000000] BUG: kernel NULL pointer dereference, address: 0", Cause.OOPS),
        (b"[    1.000000] BUG: unable to handle page fault for address: ff", Cause.OOPS),
        (b"[    1.000000] Oops: Oops: 0002 [#1] PREEMPT SMP PTI", Cause.OOPS),
        (b"[    1.000000] kernel BUG at fs/ext4/inode.c:1!", Cause.OOPS),
        (b"[    1.000000][  T123] kernel BUG at fs/ext4/inode.c:1!", Cause.OOPS),
        (b"[    1.000000] general protection fault, probably for non-canon", Cause.OOPS),
        (b"[  242.1] INFO: task mount:123 blocked for more than 60 seconds.", Cause.HUNG_TASK),
        (b"crashsim: agent exited with status 1", Cause.AGENT_GONE),
        (b"crashsim: init failed: no /dev/vda", Cause.AGENT_GONE),
        (b"[    1.0] EXT4-fs error (device vdb): ext4_lookup: bad inode", None),
        (b"[    1.0] XFS (vdb): Corruption detected. Unmount and run xfs_repair", None),
        (b"[    1.0] WARNING: CPU: 0 PID: 1 at fs/btrfs/x.c:1", None),
        (b"Kernel panic - not syncing, said the workload", None),
        (b"a program prints BUG: here", None),
        (b"", None),
    ],
)
def test_only_what_the_kernel_or_init_say_is_trouble(line: bytes, cause: Cause | None) -> None:
    assert trouble(line) is cause


class Wire:
    """A console and the guest's end of it."""

    def __init__(self) -> None:
        ours, self.guest = socket.socketpair()
        self.told: queue.SimpleQueue[Cause] = queue.SimpleQueue()
        self.console = Console(ours, self.told.put)


@pytest.fixture
def wire() -> Iterator[Wire]:
    wire = Wire()
    yield wire
    wire.console.close()
    wire.guest.close()


PANIC = b"[    9.1] Kernel panic - not syncing: Fatal exception\r\n"


def test_trouble_is_told_with_the_lines_that_follow_it(wire: Wire) -> None:
    # In one go: on a busy machine two sends may lie further apart than what counts as silence.
    trace = b"[    9.2] Call Trace:\r\n[    9.3]  last"
    wire.guest.sendall(b"[    9.0] hello\r\n" + PANIC + trace)

    assert wire.told.get(timeout=20) is Cause.PANIC
    assert wire.console.cause is Cause.PANIC
    assert wire.console.tail()[0] == "[    9.0] hello"
    assert wire.console.tail()[-1] == "[    9.3]  last"


def test_trouble_is_told_at_once_when_the_guest_ends(wire: Wire) -> None:
    wire.guest.sendall(PANIC)
    wire.guest.close()

    assert wire.console.wait_for_end(20) is Cause.PANIC
    assert wire.told.get(timeout=20) is Cause.PANIC


def test_the_first_trouble_is_the_one(wire: Wire) -> None:
    wire.guest.sendall(b"[ 1.0] Oops: 0002 [#1]\n" + PANIC)
    wire.guest.close()

    assert wire.console.wait_for_end(20) is Cause.OOPS
    assert wire.told.get(timeout=20) is Cause.OOPS
    assert wire.told.empty()


def test_an_end_without_trouble_is_no_trouble(wire: Wire) -> None:
    wire.guest.sendall(b"[ 1.0] all is well\n")
    wire.guest.close()

    assert wire.console.wait_for_end(20) is None
    assert wire.told.empty()


def test_lines_are_kept_in_part_and_made_printable(wire: Wire) -> None:
    for number in range(TAIL_LINES + 40):
        wire.guest.sendall(b"line %d\r\n" % number)
    wire.guest.sendall(b"\x1b[31mred\x1b[0m \x07\x9b\n")
    wire.guest.sendall(b"x" * (3 * LINE_BYTES_MAX))
    wire.guest.close()
    wire.console.wait_for_end(20)
    tail = wire.console.tail()

    assert len(tail) <= TAIL_LINES + 1
    assert tail[-3] == f"line {TAIL_LINES + 39}"
    assert tail[-2] == "red "
    assert tail[-1] == "x" * LINE_BYTES_MAX


def test_a_console_that_was_handed_over_is_read_by_nobody_else(wire: Wire) -> None:
    connection = wire.console.hand_over()
    wire.guest.sendall(b"for the shell")

    connection.settimeout(20)
    assert connection.recv(100) == b"for the shell"
