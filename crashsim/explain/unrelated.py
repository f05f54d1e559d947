"""Tell the data that disturbances write from everything else: it is random, and known by its seed.

The draws are those of `machines/agent/disturb.py`, in its order.
"""

import random
from collections.abc import Iterator, Mapping, Sequence

from crashsim.disk.request import PAGE_BYTES
from crashsim.faults.disturbances import Disturbance, Kind, find

_FINGERPRINT_BYTES = 16
_APPENDS = 4096
"""How many appends of the fsyncing process are known: at 22 ms each on average, 90 s of them."""


class UnrelatedData:
    """Knows what the `fsync` and the `writer` disturbance write."""

    def __init__(self, disturbances: Sequence[Disturbance]) -> None:
        """Draw what each of them writes."""
        fsync, writer = find(disturbances, Kind.FSYNC), find(disturbances, Kind.WRITER)
        self.fsyncs = fsync is not None
        self._appends = frozenset(_appends(fsync.seed, fsync.parameters)) if fsync else frozenset()
        self._stream = frozenset(_stream(writer.seed, writer.parameters)) if writer else frozenset()
        self._append_bytes = fsync.parameters["append_bytes"] if fsync else PAGE_BYTES

    def name(self, page: bytes) -> str:
        """Whose data a page is, in words; empty if it is no disturbance's."""
        if page[:_FINGERPRINT_BYTES] in self._appends:
            return "data of an unrelated process that fsyncs it"
        if page[:_FINGERPRINT_BYTES] in self._stream:
            return "data of an unrelated process that streams"
        return ""

    def has_fsynced(self, payload: bytes, *, anywhere: bool) -> bool:
        """Whether a write has something that the fsyncing process appended.

        :param anywhere: look at every byte, for small files kept inside tree blocks.
        """
        places = range(0, len(payload), 1 if anywhere else self._append_bytes)
        return any(payload[at : at + _FINGERPRINT_BYTES] in self._appends for at in places)


def _appends(seed: int, parameters: Mapping[str, int]) -> Iterator[bytes]:
    """The first bytes of each append: what to append, whether to replace, how long to pause."""
    chooser = random.Random(seed)
    for _ in range(_APPENDS):
        yield chooser.randbytes(parameters["append_bytes"])[:_FINGERPRINT_BYTES]
        chooser.randrange(100)
        chooser.uniform(parameters["pause_ms_min"], parameters["pause_ms_max"])


def _stream(seed: int, parameters: Mapping[str, int]) -> Iterator[bytes]:
    """The first bytes of each page of the stream."""
    chooser = random.Random(seed)
    for _ in range(parameters["total_bytes_max"] // parameters["chunk_bytes"]):
        chunk = chooser.randbytes(parameters["chunk_bytes"])
        for at in range(0, len(chunk), PAGE_BYTES):
            yield chunk[at : at + _FINGERPRINT_BYTES]
        chooser.uniform(parameters["pause_ms_min"], parameters["pause_ms_max"])


NOTHING = UnrelatedData(())
"""Of a recording without disturbances."""
