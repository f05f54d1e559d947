"""Reading bundles as what they are: files from strangers."""

import os
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar, cast

import msgspec
import xxhash
import zstandard

from crashsim.campaigns.results import Finding, RunResult
from crashsim.disk.request import PAGE_BYTES
from crashsim.report.bundle_format import (
    CHUNK_BYTES,
    IDENTIFIER,
    MANIFEST_LIMIT_BYTES,
    MANIFEST_NAME,
    MEMBERS_LIMIT,
    REQUIRED_NAMES,
    SCHEMA,
    Bundle,
    BundleDamaged,
    BundleNotWritten,
    Manifest,
    limit_bytes,
)
from crashsim.report.payload import PayloadRejected, unpack_payload

_ZSTD_WINDOW_LIMIT_BYTES = 1 << 25
"""Our frames need 2 MiB; one that asks for more than this is only a way to eat memory."""

T = TypeVar("T")


def read_bundle(path: Path, target_directory: Path) -> Bundle:
    """Check a bundle and unpack it into `target_directory`, which must be private to the caller.

    :raises BundleDamaged: with one line that says what is wrong with it.
    :raises BundleNotWritten: the host has no room for it.
    """
    try:
        with path.open("rb") as stream, zipfile.ZipFile(stream) as archive:
            return _unpack(path, archive, target_directory)
    except (zipfile.BadZipFile, zipfile.LargeZipFile, EOFError, NotImplementedError) as error:
        raise BundleDamaged(f"{path} is not a whole crashsim bundle: {error}") from error
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        raise BundleDamaged(f"cannot read the bundle {path}: {error.strerror}") from error
    except OSError as error:
        raise BundleNotWritten(f"cannot unpack the bundle {path}: {error.strerror}") from error


def _unpack(path: Path, archive: zipfile.ZipFile, target_directory: Path) -> Bundle:
    manifest = _checked_manifest(path, archive)
    read = _Reader(path, archive, manifest)
    finding = _checked_finding(path, read.decode("finding.json", Finding))
    oracle = read.decode("oracle.json", dict[str, Any])
    if not isinstance(oracle.get("kind"), str):
        raise BundleDamaged(f"{path} is damaged: oracle.json does not say which kind of oracle")
    evidence = {
        name.removeprefix("evidence/").removesuffix(".txt"): read.content(name).decode(
            "utf-8", "replace"
        )
        for name in sorted(manifest.members)
        if name.startswith("evidence/")
    }
    run = read.decode("run.json", RunResult) if "run.json" in manifest.members else None
    recording = target_directory / "recording"
    recording.mkdir()
    (recording / "recording.json").write_bytes(read.content("recording.json"))
    read.unpack("events.bin.zst", recording / "events.bin")
    read.unpack("data.bin.zst", recording / "data.bin")
    if "base.img.zst" in manifest.members:
        read.unpack("base.img.zst", recording / "base.img")
    payload = None
    if "payload.tar.zst" in manifest.members:
        payload = target_directory / "payload"
        read.unpack("payload.tar.zst", target_directory / "payload.tar")
        try:
            unpack_payload(target_directory / "payload.tar", payload)
        except PayloadRejected as error:
            raise BundleDamaged(f"{path} is damaged: {error}") from error
        (target_directory / "payload.tar").unlink()
    return Bundle(finding, recording, oracle, payload, run, evidence)


def _checked_manifest(path: Path, archive: zipfile.ZipFile) -> Manifest:
    names = _checked_names(path, archive)
    content = archive.read(MANIFEST_NAME)
    manifest = _decode(path, MANIFEST_NAME, content, Manifest)
    if manifest.schema != SCHEMA:
        raise BundleDamaged(
            f"{path} has the schema {manifest.schema[:60]!r}, this crashsim reads {SCHEMA!r}"
        )
    if names != {MANIFEST_NAME, *manifest.members} or not names.issuperset(REQUIRED_NAMES):
        raise BundleDamaged(f"{path} is damaged: its members are not those that it declares")
    for name, member in manifest.members.items():
        limit = limit_bytes(name)
        if limit is None:
            raise BundleDamaged(f"{path} is damaged: no bundle has a member {name[:80]!r}")
        if not 0 <= member.size_bytes <= limit:
            raise BundleDamaged(f"{path} is damaged: {name} declares {member.size_bytes} bytes")
    return manifest


def _checked_names(path: Path, archive: zipfile.ZipFile) -> set[str]:
    """The members' names, after everything has been checked that the zip itself can say."""
    infos = archive.infolist()
    names = {info.filename for info in infos}
    if len(infos) > min(len(names), MEMBERS_LIMIT):
        raise BundleDamaged(f"{path} is damaged: it has too many members, or one of them twice")
    if MANIFEST_NAME not in names:
        raise BundleDamaged(f"{path} is not a crashsim bundle: it has no {MANIFEST_NAME}")
    if any(info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1 for info in infos):
        raise BundleDamaged(f"{path} is damaged: members must be stored plainly")
    if archive.getinfo(MANIFEST_NAME).file_size > MANIFEST_LIMIT_BYTES:
        raise BundleDamaged(f"{path} is damaged: {MANIFEST_NAME} is too large")
    return names


def _checked_finding(path: Path, finding: Finding) -> Finding:
    numbers = [finding.cut, *finding.dropped, *finding.needed, *(t.write for t in finding.torn)]
    numbers += [unit for torn in finding.torn for unit in torn.kept_units]
    numbers += [n for note in finding.writes for n in (note.write, note.offset_bytes)]
    if finding.first_cut is not None:
        first = finding.first_cut
        numbers += [first.cut, *first.dropped, *(torn.write for torn in first.torn)]
    if any(not 0 <= number < 1 << 63 for number in numbers):
        raise BundleDamaged(f"{path} is damaged: finding.json has a number out of range")
    if not IDENTIFIER.fullmatch(finding.id):
        raise BundleDamaged(f"{path} is damaged: finding.json has no usable id")
    return msgspec.structs.replace(finding, bundle=None)


def _decode(path: Path, name: str, content: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise BundleDamaged(f"{path} is damaged: {name}: {error}") from error


@dataclass(frozen=True)
class _Reader:
    """Reads members, holding each to the size and the digest that the manifest declares."""

    path: Path
    archive: zipfile.ZipFile
    manifest: Manifest

    def decode(self, name: str, kind: type[T]) -> T:
        return _decode(self.path, name, self.content(name), kind)

    def content(self, name: str) -> bytes:
        with self.archive.open(name) as stream:
            return b"".join(self._chunks(name, stream))

    def unpack(self, name: str, target: Path) -> None:
        decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_LIMIT_BYTES)
        with self.archive.open(name) as packed, target.open("xb") as output:
            with decompressor.stream_reader(packed, closefd=False) as stream:
                for chunk in self._chunks(name, cast(IO[bytes], stream)):
                    _write_sparsely(output, chunk)
            output.truncate(self.manifest.members[name].size_bytes)

    def _chunks(self, name: str, stream: IO[bytes]) -> Iterator[bytes]:
        expected = self.manifest.members[name]
        digest = xxhash.xxh3_128()
        left_bytes = expected.size_bytes
        try:
            # One byte more than declared is asked for, to see that there is none.
            while chunk := stream.read(min(CHUNK_BYTES, left_bytes + 1)):
                left_bytes -= len(chunk)
                if left_bytes < 0:
                    raise BundleDamaged(f"{self.path} is damaged: {name} is larger than declared")
                digest.update(chunk)
                yield chunk
        except zstandard.ZstdError as error:
            raise BundleDamaged(f"{self.path} is damaged: {name}: {error}") from error
        if left_bytes or digest.hexdigest() != expected.digest:
            raise BundleDamaged(f"{self.path} is damaged: {name} does not match its digest")


def _write_sparsely(output: IO[bytes], chunk: bytes) -> None:
    """Append `chunk`; pages of zeros become holes. The caller truncates to the final size."""
    zero_page = bytes(PAGE_BYTES)
    start = 0
    for offset in range(0, len(chunk), PAGE_BYTES):
        if chunk[offset : offset + PAGE_BYTES] == zero_page:
            output.write(chunk[start:offset])
            output.seek(PAGE_BYTES, os.SEEK_CUR)
            start = offset + PAGE_BYTES
    output.write(chunk[start:])
