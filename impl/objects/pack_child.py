"""Feeding object names to a pack-objects process, and telling how it ended.

Names go through one buffer: write(2) is called when it is full, not twice for each object. (git
did the latter in `multi-pack-index repack` until 2.29: 921,650 calls where 4,613 were enough.)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from impl.durability.port import Bytes
from impl.durability.spawn import Child, Children, Finished
from impl.errors import StoreError

BUFFER_BYTES = 1 << 16
"""What a Linux pipe holds: the child reads one buffer while the next is filled."""

_MOST_QUOTED_BYTES = 4096


class ChildFailed(StoreError):
    """A child process failed. Its own words come first: they say why."""

    def __init__(self, command: str, finished: Finished, what: str = "") -> None:
        """:param what: more to be said than how it ended."""
        words = finished.errors[-_MOST_QUOTED_BYTES:].decode("utf-8", "replace").strip()
        if finished.status < 0:
            end = f"was killed by signal {-finished.status}"
        else:
            end = f"exited with status {finished.status}"
        reason = f": {words}" if words else " without saying why"
        self.finished = finished
        super().__init__(f"{command} {end}{reason}{f' ({what})' if what else ''}")


class NameFeeder:
    """Writes object names, one a line, to a child's standard input.

    :ivar write_calls: how many times write(2) has been called.
    """

    def __init__(self, child: Child, buffer_bytes: int = BUFFER_BYTES) -> None:
        """
        :param buffer_bytes: how much is collected for one write; 0 writes each name and each
            line's end on its own, as git did, so that the difference can be measured.
        """
        self._child = child
        self._buffer_bytes = buffer_bytes
        self._buffer = bytearray()
        self.write_calls = 0

    def feed(self, names: Iterable[str]) -> None:
        """Write all names and what is left in the buffer.

        Raises OSError, BrokenPipeError among them: then the child has stopped reading, and what
        it said is what matters.
        """
        for name in names:
            for part in (name.encode("ascii"), b"\n"):
                self._buffer += part
                if len(self._buffer) > self._buffer_bytes:
                    self._flush()
        self._flush()

    def _flush(self) -> None:
        """Pipes may take a part only (a signal came in between), or be interrupted before."""
        view: Bytes = memoryview(bytes(self._buffer))
        self._buffer = bytearray()
        while view:
            self.write_calls += 1
            try:
                taken = self._child.write(view)
            except InterruptedError:
                continue
            view = view[taken:]


def pack_in_child(
    children: Children,
    directory: str,
    arguments: list[str],
    names: Sequence[str],
    buffer_bytes: int = BUFFER_BYTES,
) -> str:
    """Run `refgit … pack-objects …` on the names; what it printed: the pack's checksum.

    :param arguments: the whole command line after `refgit`.
    Raises ChildFailed if the child failed or did not take all names; OSError if it could not be
    started, or if its input could not be written for a reason that is not the child's.
    """
    child = children.start(arguments, directory)
    trouble: OSError | None = None
    try:
        NameFeeder(child, buffer_bytes).feed(names)
    except OSError as error:
        trouble = error
    try:
        child.close_input()
    except OSError as error:
        trouble = trouble or error
    finished = child.finish()
    # A dying child breaks the pipe: its own words are the cause, the pipe's error only an effect.
    if finished.status != 0:
        raise ChildFailed("pack-objects", finished)
    if isinstance(trouble, BrokenPipeError):
        raise ChildFailed("pack-objects", finished, "it did not read all object names")
    if trouble is not None:
        raise trouble
    return finished.output.decode("ascii", "replace").strip()
