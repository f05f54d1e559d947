"""One finding in one file: everything that is needed to replay it on another machine.

A bundle is a zip archive whose members are stored as they are; the big ones are zstd frames, so
that a bundle can be looked into with common tools and still be small:

    bundle.json       schema, and for every member its size and xxh3_128 digest before compression
    finding.json      the finding (campaigns/results.py)
    oracle.json       how to judge: {"kind": "git", ...} or {"kind": "command", "check": ...}
    run.json          optional: the run that found it, without its other findings
    recording.json, events.bin.zst, data.bin.zst
                      the recording, sliced to what the finding needs (crashsim/disk)
    base.img.zst      optional: what the disk held when the recording began
    payload.tar.zst   optional: the programs under test
    evidence/*.txt    optional: what `git fsck` and the kernel said

Bundles travel, in issue trackers and mails, so reading one treats it as hostile: only the names
above exist, none of them is used as a path, every size is declared beforehand and enforced while
unpacking, and zero pages become holes, so that a small bundle cannot fill a disk with zeros.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from crashsim.campaigns.results import Finding, RunResult
from crashsim.disk.request import PAGE_BYTES
from crashsim.errors import InfrastructureError, UsageError

SCHEMA = "crashsim.bundle/1"
SUFFIX = ".crashsim"
MANIFEST_NAME = "bundle.json"
MANIFEST_LIMIT_BYTES = 1 << 20
REQUIRED_NAMES = (
    "finding.json",
    "oracle.json",
    "recording.json",
    "events.bin.zst",
    "data.bin.zst",
)

CHUNK_BYTES = 256 * PAGE_BYTES
"""How much is in memory at once; whole pages, so that pages of zeros can be seen."""
EVIDENCE_LIMIT = 32
EVIDENCE_LIMIT_BYTES = 4 << 20
IDENTIFIER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
"""What a finding's id looks like: it becomes a file's name."""

_EVIDENCE_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_JSON_LIMIT_BYTES = 32 << 20
_LIMITS_BYTES = {
    "finding.json": _JSON_LIMIT_BYTES,
    "oracle.json": 1 << 20,
    "run.json": _JSON_LIMIT_BYTES,
    "recording.json": _JSON_LIMIT_BYTES,
    "events.bin.zst": 4 << 30,
    "data.bin.zst": 64 << 30,
    "base.img.zst": 64 << 30,
    "payload.tar.zst": 4 << 30,
}
MEMBERS_LIMIT = 1 + len(_LIMITS_BYTES) + EVIDENCE_LIMIT


class BundleDamaged(UsageError):
    """The file is no bundle, was cut short or changed, or holds what no bundle may hold."""


class BundleNotWritten(InfrastructureError):
    """The host could not write a bundle or unpack one: its disk is full, a directory is gone."""


class Member(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `bundle.json` says of one member: size and xxh3_128 digest before compression."""

    size_bytes: int
    digest: str


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of `bundle.json`; `crashsim` is the version that wrote it."""

    schema: str
    crashsim: str
    members: dict[str, Member]


@dataclass(frozen=True)
class Bundle:
    """A bundle that has been checked and unpacked.

    :ivar recording: a recording's directory; what its files say is as untrusted as before, only
        known to be what was packed.
    :ivar oracle: how to judge; `kind` is there and a string, everything else is up to the oracle.
    :ivar payload: directory of the programs under test, to be put into a guest and nowhere else.
    :ivar run: the run that found it, its `findings` empty.
    :ivar evidence: name -> text.
    """

    finding: Finding
    recording: Path
    oracle: Mapping[str, Any]
    payload: Path | None = None
    run: RunResult | None = None
    evidence: Mapping[str, str] = field(default_factory=dict)


def limit_bytes(name: str) -> int | None:
    """How much a member of this name may hold when unpacked; None: no bundle has such a member."""
    if name in _LIMITS_BYTES:
        return _LIMITS_BYTES[name]
    stem = name.removeprefix("evidence/").removesuffix(".txt")
    known = f"evidence/{stem}.txt" == name and _EVIDENCE_NAME.fullmatch(stem)
    return EVIDENCE_LIMIT_BYTES if known else None


def evidence_member(name: str) -> str:
    """The member's name for a piece of evidence; ValueError where the name is no good."""
    if not _EVIDENCE_NAME.fullmatch(name):
        raise ValueError(f"an evidence name is lower-case letters, digits, - and _: {name!r}")
    return f"evidence/{name}.txt"
