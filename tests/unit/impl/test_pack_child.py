"""Object names on their way to a pack-objects process that may take its time, or die."""

import errno
from collections.abc import Sequence

import pytest

from impl.durability.port import Bytes
from impl.durability.spawn import Child, Finished
from impl.objects.pack_child import ChildFailed, NameFeeder, pack_in_child

NAMES = [f"{number:040x}" for number in range(2000)]
WELL = Finished(0, b"0123abcd\n", b"")


class ScriptedChild:
    """Takes bytes as told: a number is how many at most, an exception is raised."""

    def __init__(
        self,
        script: Sequence[int | OSError] = (),
        finished: Finished = WELL,
        close_error: OSError | None = None,
    ) -> None:
        self.script = list(script)
        self.finished = finished
        self.close_error = close_error
        self.taken = bytearray()
        self.calls = 0
        self.closed = self.waited = 0

    def write(self, data: Bytes) -> int:
        self.calls += 1
        step = self.script.pop(0) if self.script else len(data)
        if isinstance(step, OSError):
            raise step
        piece = bytes(data[:step])
        self.taken += piece
        return len(piece)

    def close_input(self) -> None:
        assert not self.waited, "waited for a child that still waits for its input"
        self.closed += 1
        if self.close_error is not None:
            raise self.close_error

    def finish(self) -> Finished:
        self.waited += 1
        return self.finished

    def start(self, arguments: Sequence[str], directory: str) -> Child:
        assert (list(arguments), directory) == (["pack-objects", "base"], "/somewhere")
        return self


def pack(child: ScriptedChild) -> str:
    return pack_in_child(child, "/somewhere", ["pack-objects", "base"], NAMES)


def lines() -> bytes:
    return "".join(f"{name}\n" for name in NAMES).encode()


def test_names_arrive_and_the_answer_comes_back() -> None:
    child = ScriptedChild()
    assert pack(child) == "0123abcd"
    assert child.taken == lines()
    assert (child.closed, child.waited) == (1, 1)


def test_a_buffer_saves_write_calls() -> None:
    buffered, unbuffered = ScriptedChild(), ScriptedChild()
    with_buffer = NameFeeder(buffered, 4096)
    without = NameFeeder(unbuffered, 0)
    with_buffer.feed(NAMES)
    without.feed(NAMES)
    assert buffered.taken == unbuffered.taken == lines()
    assert without.write_calls == unbuffered.calls == 2 * len(NAMES)
    assert with_buffer.write_calls == buffered.calls == -(-len(NAMES) * 41 // 4096)
    assert without.write_calls / with_buffer.write_calls >= 190


def test_short_writes_and_interruptions_lose_nothing() -> None:
    interrupted = InterruptedError(errno.EINTR, "Interrupted system call")
    child = ScriptedChild([1, interrupted, 7, 0, interrupted, 1000, 3])
    assert pack(child) == "0123abcd"
    assert child.taken == lines()


def test_a_dying_child_is_reported_in_its_own_words() -> None:
    broken = BrokenPipeError(errno.EPIPE, "Broken pipe")
    words = b"fatal: object 00 is not in this repository\n"
    child = ScriptedChild([10, broken], Finished(128, b"", words), broken)
    with pytest.raises(ChildFailed) as failure:
        pack(child)
    assert str(failure.value) == (
        "pack-objects exited with status 128: fatal: object 00 is not in this repository"
    )
    assert (child.closed, child.waited) == (1, 1)


def test_a_killed_child() -> None:
    broken = BrokenPipeError(errno.EPIPE, "Broken pipe")
    child = ScriptedChild([broken], Finished(-9, b"", b""))
    with pytest.raises(ChildFailed, match="was killed by signal 9 without saying why"):
        pack(child)


def test_a_child_that_succeeds_without_reading_everything() -> None:
    child = ScriptedChild([BrokenPipeError(errno.EPIPE, "Broken pipe")])
    with pytest.raises(ChildFailed, match="did not read all object names"):
        pack(child)


@pytest.mark.parametrize("where", ["write", "close"])
def test_errors_that_are_not_the_childs(where: str) -> None:
    error = OSError(errno.EIO, "Input/output error")
    child = ScriptedChild([5, error]) if where == "write" else ScriptedChild(close_error=error)
    with pytest.raises(OSError, match="Input/output error") as failure:
        pack(child)
    assert failure.value is error
    assert (child.closed, child.waited) == (1, 1)
