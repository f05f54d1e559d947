"""Writing bundles, and the door to reading them. What is in one: see bundle_format."""

import io
import os
import stat
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import IO, Any

import msgspec
import xxhash
import zstandard

from crashsim import __version__
from crashsim.campaigns.results import Finding, RunResult
from crashsim.disk.recording import BASE_NAME
from crashsim.report.bundle_format import (
    CHUNK_BYTES,
    EVIDENCE_LIMIT,
    EVIDENCE_LIMIT_BYTES,
    IDENTIFIER,
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
from crashsim.report.bundle_reader import read_bundle
from crashsim.report.payload import pack_payload

__all__ = [
    "SUFFIX",
    "Bundle",
    "BundleDamaged",
    "BundleNotWritten",
    "read_bundle",
    "write_bundle",
]

_ZSTD_LEVEL = 3
"""A recording is mostly zeros, text and incompressible packs: more effort gains next to nothing."""
_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The earliest time that the format can express: equal findings give equal files."""
_ZIP64_FROM_BYTES = 1 << 30
"""Larger members get the long header at once: how long they become is known only afterwards."""


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
    :param evidence: name (lower-case letters, digits, `-`, `_`) -> text; of a text of more than
        4 MiB the end is kept.
    :raises BundleNotWritten: the host could not write it.
    :raises PayloadRejected: the payload holds something that a bundle must not carry.
    """
    if not IDENTIFIER.fullmatch(finding.id) or not isinstance(oracle.get("kind"), str):
        raise ValueError(f"no bundle can be read with the id {finding.id!r} and oracle {oracle!r}")
    texts = {
        "finding.json": _encode(msgspec.structs.replace(finding, bundle=None)),
        "oracle.json": _encode(dict(oracle)),
    }
    if run is not None:
        texts["run.json"] = _encode(msgspec.structs.replace(run, findings=[]))
    for name, text in sorted((evidence or {}).items())[:EVIDENCE_LIMIT]:
        texts[evidence_member(name)] = _clip(text)
    try:
        with ExitStack() as stack:
            sources: dict[str, IO[bytes]] = {name: io.BytesIO(text) for name, text in texts.items()}
            for member, source in _recording_files(recording).items():
                sources[member] = stack.enter_context(source.open("rb"))
            if payload is not None:
                # Beside the bundle, and without a name: where there is room, and never left over.
                archive = stack.enter_context(tempfile.TemporaryFile(dir=path.parent))
                pack_payload(payload, archive)
                sources["payload.tar.zst"] = archive
            _write_archive(stack.enter_context(_replacing(path)), sources)
    except OSError as error:
        raise BundleNotWritten(
            f"cannot write the bundle {path}: {error.strerror or error}; "
            "make room or choose another --out directory"
        ) from error


def _recording_files(recording: Path) -> dict[str, Path]:
    files = {
        "recording.json": recording / "recording.json",
        "events.bin.zst": recording / "events.bin",
        "data.bin.zst": recording / "data.bin",
    }
    if (recording / BASE_NAME).is_file():
        files["base.img.zst"] = recording / BASE_NAME
    return files


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


def _write_archive(stream: IO[bytes], sources: Mapping[str, IO[bytes]]) -> None:
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        members = {name: _add(archive, name, source) for name, source in sources.items()}
        manifest = _encode(Manifest(SCHEMA, __version__, members))
        _add(archive, MANIFEST_NAME, io.BytesIO(manifest))


def _add(archive: zipfile.ZipFile, name: str, source: IO[bytes]) -> Member:
    information = zipfile.ZipInfo(name, _ZIP_EPOCH)
    information.external_attr = (stat.S_IFREG | 0o644) << 16
    information.create_system = 3  # Unix: what makes the attributes above mean something
    size_bytes = source.seek(0, os.SEEK_END)
    source.seek(0)
    digest = xxhash.xxh3_128()
    with (
        archive.open(information, "w", force_zip64=size_bytes > _ZIP64_FROM_BYTES) as member,
        _packed(member, size_bytes) if name.endswith(".zst") else nullcontext(member) as target,
    ):
        while chunk := source.read(CHUNK_BYTES):
            digest.update(chunk)
            target.write(chunk)
    return Member(size_bytes, digest.hexdigest())


def _packed(member: IO[bytes], size_bytes: int) -> zstandard.ZstdCompressionWriter:
    compressor = zstandard.ZstdCompressor(level=_ZSTD_LEVEL, write_checksum=True)
    return compressor.stream_writer(member, size=size_bytes, closefd=False)
