"""Bundles: what goes in comes out, and nothing hostile gets through."""

import io
import os
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import xxhash
import zstandard

from crashsim.campaigns.results import FirstCut
from crashsim.errors import UsageError
from crashsim.report.bundle import (
    Bundle,
    BundleDamaged,
    BundleNotWritten,
    read_bundle,
    write_bundle,
)
from crashsim.report.payload import PayloadRejected, unpack_payload
from tests.support.report_samples import finding, run

ORACLE = {"kind": "git", "git_dir": "repo/.git"}
DATA = bytes(8192) + b"x" * 4096 + bytes(1 << 20) + b"tail"


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    directory = tmp_path / "recording"
    directory.mkdir()
    (directory / "recording.json").write_text('{"schema": "crashsim.recording/1"}')
    (directory / "events.bin").write_bytes(bytes(range(256)) * 40)
    (directory / "data.bin").write_bytes(DATA)
    return directory


@pytest.fixture
def payload(tmp_path: Path) -> Path:
    directory = tmp_path / "programs"
    (directory / "bin").mkdir(parents=True)
    (directory / "bin" / "refgit").write_text("#!/bin/sh\necho hi\n")
    (directory / "bin" / "refgit").chmod(0o755)
    (directory / "bin" / "git").symlink_to("refgit")
    (directory / "empty").mkdir()
    return directory


@pytest.fixture
def bundle_path(tmp_path: Path, recording: Path) -> Path:
    path = tmp_path / "one.crashsim"
    write_bundle(path, finding(), recording, ORACLE, evidence={"git-fsck": "error: bad\n"})
    return path


def unpacked(path: Path, where: str = "out") -> Bundle:
    target = path.parent / where
    target.mkdir()
    return read_bundle(path, target)


def rewritten(path: Path, change: Callable[[dict[str, bytes]], None]) -> Path:
    """The bundle with its members changed by `change`, its manifest left as it was."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    other = path.with_name("changed.crashsim")
    with zipfile.ZipFile(other, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return other


def replaced(path: Path, name: str, stored: bytes, content: bytes | None = None) -> Path:
    """The bundle with one member replaced (or added) and the manifest agreeing to it."""

    def change(members: dict[str, bytes]) -> None:
        plain = stored if content is None else content
        manifest = msgspec.json.decode(members["bundle.json"])
        manifest["members"][name] = {
            "size_bytes": len(plain),
            "digest": xxhash.xxh3_128_hexdigest(plain),
        }
        members[name] = stored
        members["bundle.json"] = msgspec.json.encode(manifest)

    return rewritten(path, change)


def declared(path: Path, name: str, **fields: object) -> Path:
    """The bundle with fields of one member's declaration changed."""

    def change(members: dict[str, bytes]) -> None:
        manifest = msgspec.json.decode(members["bundle.json"])
        manifest["members"][name].update(fields)
        members["bundle.json"] = msgspec.json.encode(manifest)

    return rewritten(path, change)


def test_everything_comes_back_as_it_went_in(
    tmp_path: Path, recording: Path, payload: Path
) -> None:
    path = tmp_path / "one.crashsim"
    write_bundle(
        path, finding(), recording, ORACLE, payload=payload, run=run(), evidence={"fsck": "bad ☠\n"}
    )

    bundle = unpacked(path)

    assert bundle.finding == msgspec.structs.replace(finding(), bundle=None)
    assert bundle.oracle == ORACLE
    assert bundle.evidence == {"fsck": "bad ☠\n"}
    assert not (bundle.recording / "base.img").exists()
    assert bundle.run == run()
    for name in ("recording.json", "events.bin", "data.bin"):
        assert (bundle.recording / name).read_bytes() == (recording / name).read_bytes()
    assert bundle.payload is not None
    assert os.access(bundle.payload / "bin" / "refgit", os.X_OK)
    assert os.readlink(bundle.payload / "bin" / "git") == "refgit"
    assert (bundle.payload / "empty").is_dir()


def test_the_image_that_the_disk_began_with_comes_along(tmp_path: Path, recording: Path) -> None:
    (recording / "base.img").write_bytes(DATA[::-1])
    write_bundle(tmp_path / "one.crashsim", finding(), recording, ORACLE)

    bundle = unpacked(tmp_path / "one.crashsim")

    assert (bundle.recording / "base.img").read_bytes() == DATA[::-1]


def test_zero_pages_become_holes(bundle_path: Path) -> None:
    status = (unpacked(bundle_path).recording / "data.bin").stat()

    assert status.st_size == len(DATA)
    assert status.st_blocks * 512 < len(DATA) // 4


def test_equal_input_gives_equal_bytes(tmp_path: Path, recording: Path, payload: Path) -> None:
    first, second = tmp_path / "1.crashsim", tmp_path / "2.crashsim"

    write_bundle(first, finding(bundle="a"), recording, ORACLE, payload=payload)
    for path in (recording / "data.bin", payload / "bin" / "refgit"):
        os.utime(path, (5, 5))
    write_bundle(second, finding(bundle="b"), recording, ORACLE, payload=payload)

    assert first.read_bytes() == second.read_bytes()


def test_a_failed_write_leaves_the_old_bundle_and_no_temporary(
    bundle_path: Path, recording: Path
) -> None:
    before = bundle_path.read_bytes()
    (recording / "data.bin").unlink()

    with pytest.raises(BundleNotWritten, match=r"cannot write the bundle .*one\.crashsim"):
        write_bundle(bundle_path, finding(), recording, ORACLE)

    assert bundle_path.read_bytes() == before
    assert sorted(p.name for p in bundle_path.parent.iterdir()) == ["one.crashsim", "recording"]


@pytest.mark.parametrize(
    ("changes", "oracle", "evidence"),
    [
        ({"id": "../x"}, ORACLE, {}),
        ({}, {}, {}),
        ({}, {"kind": 3}, {}),
        ({}, ORACLE, {"../x": "y"}),
    ],
)
def test_what_could_not_be_read_again_is_not_written(
    tmp_path: Path,
    recording: Path,
    changes: dict[str, object],
    oracle: dict[str, object],
    evidence: dict[str, str],
) -> None:
    with pytest.raises(ValueError, match=r"no bundle can be read|evidence name"):
        write_bundle(
            tmp_path / "x.crashsim", finding(**changes), recording, oracle, evidence=evidence
        )

    assert not (tmp_path / "x.crashsim").exists()


def test_evidence_keeps_its_end_when_it_is_too_long(tmp_path: Path, recording: Path) -> None:
    path = tmp_path / "one.crashsim"
    write_bundle(path, finding(), recording, ORACLE, evidence={"kernel": "a" * (5 << 20) + "END"})

    text = unpacked(path).evidence["kernel"]

    assert len(text) == 4 << 20
    assert text.endswith("END")


@pytest.mark.parametrize("content", [b"", b"PK\5\6", b"\0" * 100, b"not a bundle at all"])
def test_anything_else_is_no_bundle(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.crashsim"
    path.write_bytes(content)

    with pytest.raises(BundleDamaged, match="not a whole crashsim bundle"):
        unpacked(path)


def test_a_missing_file_is_a_usage_error_of_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file") as raised:
        unpacked(tmp_path / "none.crashsim")

    assert "\n" not in str(raised.value)


def test_every_cut_short_bundle_is_refused(bundle_path: Path) -> None:
    content = bundle_path.read_bytes()
    short = bundle_path.with_name("short.crashsim")
    for length in range(0, len(content), max(1, len(content) // 97)):
        short.write_bytes(content[:length])
        with pytest.raises(BundleDamaged):
            unpacked(short, f"out-{length}")


def test_every_flipped_byte_is_noticed_or_harmless(bundle_path: Path) -> None:
    """A byte of the zip's own bookkeeping may be free; the content never changes unnoticed."""
    content = bytearray(bundle_path.read_bytes())
    flipped = bundle_path.with_name("flipped.crashsim")
    refused = 0
    for position in range(0, len(content), 7):
        content[position] ^= 0x55
        flipped.write_bytes(content)
        content[position] ^= 0x55
        try:
            bundle = unpacked(flipped, f"out-{position}")
        except BundleDamaged:
            refused += 1
            continue
        assert (bundle.recording / "data.bin").read_bytes() == DATA
        assert bundle.finding == msgspec.structs.replace(finding(), bundle=None)

    assert refused > len(content) // 7 // 2


@pytest.mark.parametrize(
    "name",
    ["../evil", "/etc/passwd", "evidence/../../evil.txt", "evidence/A.txt", "evidence/x", "more"],
)
def test_a_name_that_no_bundle_has_is_refused(bundle_path: Path, name: str) -> None:
    with pytest.raises(BundleDamaged, match="no bundle has a member"):
        unpacked(replaced(bundle_path, name, b"evil"))


def test_an_undeclared_or_missing_member_is_refused(bundle_path: Path) -> None:
    extra = rewritten(bundle_path, lambda members: members.update({"evidence/more.txt": b"x"}))
    with pytest.raises(BundleDamaged, match="not those that it declares"):
        unpacked(extra)

    def without_events(members: dict[str, bytes]) -> None:
        del members["events.bin.zst"]

    missing = rewritten(bundle_path, without_events)
    with pytest.raises(BundleDamaged, match="not those that it declares"):
        unpacked(missing, "out2")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_member_that_comes_twice_is_refused(bundle_path: Path) -> None:
    with zipfile.ZipFile(bundle_path, "a") as archive:
        archive.writestr("finding.json", b"{}")

    with pytest.raises(BundleDamaged, match="one of them twice"):
        unpacked(bundle_path)


def test_a_bomb_stops_at_what_it_declared(bundle_path: Path) -> None:
    bomb = zstandard.ZstdCompressor().compress(b"A" * (64 << 20))
    path = declared(
        replaced(bundle_path, "data.bin.zst", bomb, b"A" * 100), "data.bin.zst", size_bytes=100
    )

    with pytest.raises(BundleDamaged, match="larger than declared"):
        unpacked(path)

    assert (path.parent / "out" / "recording" / "data.bin").stat().st_size <= 100


def test_a_declaration_beyond_the_limit_is_refused_before_anything_is_unpacked(
    bundle_path: Path,
) -> None:
    for number, size_bytes in enumerate((1 << 50, -1)):
        path = declared(bundle_path, "data.bin.zst", size_bytes=size_bytes)
        with pytest.raises(BundleDamaged, match="declares"):
            unpacked(path, f"out-{number}")
        assert list((path.parent / f"out-{number}").iterdir()) == []


def test_a_frame_that_wants_a_huge_window_is_refused(bundle_path: Path) -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=26)  # zstd itself allows 27
    frame = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    stored = frame.compress(DATA) + frame.flush()

    with pytest.raises(BundleDamaged, match=r"data\.bin\.zst"):
        unpacked(replaced(bundle_path, "data.bin.zst", stored, DATA))


def test_a_wrong_digest_and_a_short_content_are_refused(bundle_path: Path) -> None:
    wrong: list[dict[str, object]] = [{"digest": "0" * 32}, {"size_bytes": len(DATA) + 1}]
    for number, fields in enumerate(wrong):
        with pytest.raises(BundleDamaged, match="does not match its digest"):
            unpacked(declared(bundle_path, "data.bin.zst", **fields), f"out-{number}")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("finding.json", b"{", "finding.json"),
        ("finding.json", b"[" * 100_000, "finding.json"),
        ("finding.json", b'{"id": 3}', "finding.json"),
        ("oracle.json", b'{"kind": 3}', "which kind of oracle"),
        ("oracle.json", b"[]", "oracle.json"),
    ],
)
def test_json_that_is_not_what_it_should_be_is_refused(
    bundle_path: Path, name: str, content: bytes, message: str
) -> None:
    with pytest.raises(BundleDamaged, match=message):
        unpacked(replaced(bundle_path, name, content))


@pytest.mark.parametrize(
    "changes", [{"cut": -1}, {"dropped": [1 << 63]}, {"id": "../../x"}, {"id": ""}]
)
def test_findings_out_of_range_are_refused(bundle_path: Path, changes: dict[str, object]) -> None:
    content = msgspec.json.encode(finding(**changes))

    with pytest.raises(BundleDamaged, match=r"finding\.json has"):
        unpacked(replaced(bundle_path, "finding.json", content))


def test_a_later_schema_is_named(bundle_path: Path) -> None:
    def change(members: dict[str, bytes]) -> None:
        members["bundle.json"] = members["bundle.json"].replace(b"bundle/1", b"bundle/9")

    with pytest.raises(BundleDamaged, match=r"crashsim\.bundle/9.*reads 'crashsim\.bundle/1'"):
        unpacked(rewritten(bundle_path, change))


@pytest.mark.parametrize("target", ["/etc/passwd", "../../x", "../x", "a/../../x"])
def test_a_payload_with_a_link_out_of_itself_is_not_packed(
    tmp_path: Path, recording: Path, payload: Path, target: str
) -> None:
    (payload / "link").symlink_to(target)

    with pytest.raises(PayloadRejected, match="'link' points out of the payload"):
        write_bundle(tmp_path / "x.crashsim", finding(), recording, ORACLE, payload=payload)

    assert not (tmp_path / "x.crashsim").exists()


def tar_of(*members: tuple[str, bytes, str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, kind, link in members:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, link
            archive.addfile(member)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("archive", "message"),
    [
        (tar_of(("../evil", tarfile.REGTYPE, "")), "leaves the payload"),
        (tar_of(("/evil", tarfile.REGTYPE, "")), "leaves the payload"),
        (tar_of(("a", tarfile.SYMTYPE, "/etc")), "out of the payload"),
        (tar_of(("a", tarfile.LNKTYPE, "/etc/passwd")), "neither file"),
        (tar_of(("a", tarfile.CHRTYPE, "")), "neither file"),
        (tar_of(("d", tarfile.SYMTYPE, "."), ("d/x", tarfile.REGTYPE, "")), "behind a link"),
        (tar_of(("d", tarfile.SYMTYPE, "x"), ("d", tarfile.REGTYPE, "")), "behind a link"),
        (tar_of(("d/x", tarfile.REGTYPE, ""), ("d", tarfile.REGTYPE, "")), "two members"),
        (b"\xff" * 1024, "not a whole tar archive"),
    ],
)
def test_a_hostile_payload_is_refused(bundle_path: Path, archive: bytes, message: str) -> None:
    stored = zstandard.ZstdCompressor().compress(archive)

    with pytest.raises(BundleDamaged, match=message):
        unpacked(replaced(bundle_path, "payload.tar.zst", stored, archive))

    outside = sorted(p.name for p in bundle_path.parent.iterdir())
    assert outside == ["changed.crashsim", "one.crashsim", "out", "recording"]


def test_a_nested_finding_comes_with_its_first_cut_and_its_base(
    tmp_path: Path, recording: Path
) -> None:
    (recording / "base.img").write_bytes(bytes(8192) + b"left by the first cut")
    told = finding(id="nested-durable-lost", first_cut=FirstCut(812, "gc", [4], []))
    path = tmp_path / "nested.crashsim"
    write_bundle(path, told, recording, ORACLE)

    opened = unpacked(path)

    assert opened.finding.first_cut == FirstCut(812, "gc", [4], [])
    assert (opened.recording / "base.img").read_bytes()[8192:] == b"left by the first cut"


def test_a_first_cut_that_makes_no_sense_is_refused(tmp_path: Path, recording: Path) -> None:
    told = finding(first_cut=FirstCut(-1, "gc", [], []))
    path = tmp_path / "nested.crashsim"
    write_bundle(path, told, recording, ORACLE)

    with pytest.raises(BundleDamaged, match="out of range"):
        unpacked(path)


def test_nobody_else_may_write_what_is_unpacked_or_becomes_its_owner(tmp_path: Path) -> None:
    """With and without tarfile's own filter, which Debian 12's Python does not have."""
    source = tmp_path / "payload.tar"
    with tarfile.open(source, "w") as archive:
        for name, kind, mode in (("d", tarfile.DIRTYPE, 0o1000), ("d/x", tarfile.REGTYPE, 0o4777)):
            member = tarfile.TarInfo(name)
            member.type, member.mode, member.uid, member.gid = kind, mode, 12345, 12345
            archive.addfile(member)

    unpack_payload(source, tmp_path / "out")

    directory, file = ((tmp_path / "out" / name).stat() for name in ("d", "d/x"))
    assert file.st_mode & 0o7777 == 0o755
    assert directory.st_mode & 0o1022 == 0
    assert {directory.st_uid, file.st_uid} == {os.getuid()}
