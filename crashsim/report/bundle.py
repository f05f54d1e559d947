"""Writing bundles, and the door to reading them. What is in one: see bundle_format."""

import os
import shutil
import stat
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

import msgspec
import xxhash
import zstandard

from crashsim import __version__
from crashsim.campaigns.results import Finding, RunResult
from crashsim.report.bundle_format import (
    CHUNK_BYTES,
    EVIDENCE_LIMIT_BYTES,
    MANIFEST_NAME,
    SCHEMA,
    SUFFIX,
    Bundle,
    BundleDamaged,
    BundleNotWritten,
    Manifest,
    Member,
    evidence_member,
)
from crashsim.report.bundle_reader import read_bundle, read_finding
from crashsim.report.payload import pack_payload

__all__ = [
    "SUFFIX",
    "Bundle",
    "BundleDamaged",
    "BundleNotWritten",
    "read_bundle",
    "read_finding",
    "write_bundle",
]

_ZSTD_LEVEL = 9
_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The earliest time that the format can express: equal findings give equal files."""


def write_bundle(
    path: Path,
    finding: Finding,
    recording: Path,
    oracle: Mapping[str, Any],
    *,
    payload: Path | None = None,
    run: RunResult | None = None,
    evidence: Mapping[str, str] | None = None,
) -> None:
    """Write `path`, whole or not at all; equal arguments give equal bytes.

    :param recording: a recording's directory, already sliced to what the finding needs.
    :param oracle: JSON-able; must have a `kind`.
    :param payload: a directory of programs; relative symlinks that stay inside are kept.
    :raises BundleNotWritten: the host could not write it.
    :raises PayloadRejected: the payload holds something that a bundle must not carry.
    """
    sources: dict[str, bytes | Path] = {
        "finding.json": _encode(msgspec.structs.replace(finding, bundle=None)),
        "oracle.json": _encode(dict(oracle)),
        "recording.json": recording / "recording.json",
        "events.bin.zst": recording / "events.bin",
        "data.bin.zst": recording / "data.bin",
    }
    if run is not None:
        sources["run.json"] = _encode(msgspec.structs.replace(run, findings=[]))
    for name, text in sorted((evidence or {}).items()):
        sources[evidence_member(name)] = _clip(text)
    try:
        with tempfile.TemporaryDirectory(prefix="crashsim-bundle-") as scratch:
            if payload is not None:
                sources["payload.tar.zst"] = Path(scratch) / "payload.tar"
                pack_payload(payload, Path(scratch) / "payload.tar")
            with _replacing(path) as stream:
                _write_archive(stream, sources, Path(scratch))
    except OSError as error:
        raise BundleNotWritten(
            f"cannot write the bundle {path}: {error.strerror or error}; "
            "make room or choose another --out directory"
        ) from error


def _encode(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value, order="deterministic"), indent=1)


def _clip(text: str) -> bytes:
    content = text.encode("utf-8", "backslashreplace")
    if len(content) <= EVIDENCE_LIMIT_BYTES:
        return content
    # The end of a kernel log says how it ended: that is the part to keep.
    return content[-EVIDENCE_LIMIT_BYTES:].decode("utf-8", "ignore").encode()


@contextmanager
def _replacing(path: Path) -> Iterator[IO[bytes]]:
    """A new file that takes `path`'s place once it is whole and on the disk."""
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(descriptor, "w+b") as stream:
            yield stream
            stream.flush()
            os.fchmod(stream.fileno(), 0o644)
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _write_archive(stream: IO[bytes], sources: Mapping[str, bytes | Path], scratch: Path) -> None:
    members: dict[str, Member] = {}
    packed: dict[str, bytes | Path] = {}
    for number, (name, source) in enumerate(sources.items()):
        if name.endswith(".zst"):
            packed[name] = scratch / f"{number}.zst"
            members[name] = _compress(cast(Path, source), scratch / f"{number}.zst")
        else:
            content = source if isinstance(source, bytes) else source.read_bytes()
            packed[name] = content
            members[name] = Member(len(content), xxhash.xxh3_128_hexdigest(content))
    manifest = _encode(Manifest(SCHEMA, __version__, members))
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, content_or_path in {MANIFEST_NAME: manifest, **packed}.items():
            information = zipfile.ZipInfo(name, _ZIP_EPOCH)
            information.external_attr = (stat.S_IFREG | 0o644) << 16
            information.create_system = 3
            if isinstance(content_or_path, bytes):
                archive.writestr(information, content_or_path)
                continue
            information.file_size = content_or_path.stat().st_size
            with content_or_path.open("rb") as reader, archive.open(information, "w") as member:
                shutil.copyfileobj(reader, member, CHUNK_BYTES)


def _compress(source: Path, target: Path) -> Member:
    digest = xxhash.xxh3_128()
    size_bytes = source.stat().st_size
    compressor = zstandard.ZstdCompressor(level=_ZSTD_LEVEL, write_checksum=True)
    with (
        source.open("rb") as reader,
        target.open("wb") as raw,
        compressor.stream_writer(raw, size=size_bytes, closefd=False) as writer,
    ):
        while chunk := reader.read(CHUNK_BYTES):
            digest.update(chunk)
            writer.write(chunk)
    return Member(size_bytes, digest.hexdigest())
