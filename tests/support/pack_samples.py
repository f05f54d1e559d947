"""Packs made for tests in memory, and a port that serves files out of memory, damaged or not."""

import os
import zlib
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from impl.durability.port import Bytes, OsPort
from impl.objects.delta import DeltaBase
from impl.objects.hashes import HashAlgorithm
from impl.objects.idx import PackedEntry, encode_index
from impl.objects.pack_format import BLOB, TYPE_NAMES
from impl.objects.pack_write import PackWriter


class MadePack:
    """A pack of given blobs; every second one a delta of the one before it.

    :ivar contents: what must be read back, by binary name.
    """

    def __init__(self, blobs: Sequence[bytes], algorithm: HashAlgorithm) -> None:
        self.contents = {object_name(blob, algorithm): blob for blob in blobs}
        parts: list[bytes] = []
        writer = PackWriter(lambda data: parts.append(bytes(data)), algorithm, len(self.contents))
        previous: tuple[bytes, bytes] | None = None
        for name, blob in self.contents.items():
            delta = None
            if previous is not None:
                delta = DeltaBase(previous[1]).delta(blob, 10 * len(blob) + 100)
            if previous is None or delta is None:
                writer.add_whole(name, BLOB, len(blob), zlib.compress(blob))
            else:
                writer.add_delta(name, previous[0], len(delta), zlib.compress(delta))
            previous = None if previous is not None else (name, blob)
        self.checksum = writer.finish()
        self.pack = b"".join(parts)
        self.entries: list[PackedEntry] = writer.entries
        self.index = encode_index(writer.entries, self.checksum, algorithm)
        self.algorithm = algorithm

    def files(self, directory: str = "objects/pack") -> dict[str, bytes]:
        stem = f"{directory}/pack-{self.checksum.hex()}"
        return {f"{stem}.pack": self.pack, f"{stem}.idx": self.index}


def object_name(content: bytes, algorithm: HashAlgorithm, kind: int = BLOB) -> bytes:
    return bytes.fromhex(algorithm.object_name(TYPE_NAMES[kind], content))


def sealed(body: Bytes, algorithm: HashAlgorithm) -> bytes:
    """A file's content with the checksum at its end made right again."""
    rest = bytes(body[: -algorithm.size_bytes])
    return rest + algorithm.new(rest).digest()


class FrozenFiles(OsPort):
    """A port that reads files from memory. What would change anything fails.

    :ivar files: path -> content; may be changed between calls, as another process would.
    :ivar times_ns: path -> when it was modified; 0 where there is none.
    """

    def __init__(
        self, files: Mapping[str, bytes], times_ns: Mapping[str, int] | None = None
    ) -> None:
        self.files = dict(files)
        self.times_ns = dict(times_ns or {})
        self._open: dict[int, list[Any]] = {}

    def open(self, path: str, flags: int, mode: int = 0o666) -> int:
        assert flags == os.O_RDONLY, "frozen"
        if path not in self.files:
            raise FileNotFoundError(2, "No such file or directory", path)
        descriptor = 1000 + len(self._open)
        self._open[descriptor] = [path, 0]
        return descriptor

    def close(self, descriptor: int) -> None:
        assert self._open[descriptor][0] is not None
        self._open[descriptor][0] = None

    def read(self, descriptor: int, count: int) -> bytes:
        path, position = self._open[descriptor]
        chunk = self.files[path][position : position + count]
        self._open[descriptor][1] += len(chunk)
        return chunk

    def map(self, descriptor: int, length: int) -> Bytes:
        return memoryview(self.files[self._open[descriptor][0]])[:length]

    def fstat(self, descriptor: int) -> os.stat_result:
        return self.stat(self._open[descriptor][0])

    def stat(self, path: str) -> os.stat_result:
        if path not in self.files:
            raise FileNotFoundError(2, "No such file or directory", path)
        found: Any = SimpleNamespace(
            st_size=len(self.files[path]), st_mtime_ns=self.times_ns.get(path, 0)
        )
        return found  # type: ignore[no-any-return]

    def list_directory(self, path: str) -> Sequence[str]:
        prefix = path + "/"
        names = {file[len(prefix) :] for file in self.files if file.startswith(prefix)}
        if not names:
            raise FileNotFoundError(2, "No such file or directory", path)
        return sorted(name for name in names if "/" not in name)
