"""The initramfs: what is in it, and what a payload may be."""

import io
import os
import stat
import tarfile
from pathlib import Path

import pytest

from crashsim.errors import InfrastructureError
from crashsim.machines.images import cpio, initramfs
from crashsim.machines.images.cache import Image, Manifest
from crashsim.machines.images.initramfs import (
    PayloadError,
    base_initramfs,
    compose_initramfs,
    payload_entries,
)
from crashsim.machines.images.recipe import ImageSpec, read_recipe
from tests.support.cpio_archive import read_archive

ELF = b"\x7fELF module"


def modules_tar(path: Path, files: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def one_kernel(prefix: str = "./6.12.0/") -> dict[str, bytes]:
    return {
        prefix + "modules.dep": b"kernel/b.ko: kernel/a.ko\nkernel/a.ko:\nkernel/unwanted.ko:\n",
        prefix + "modules.softdep": b"",
        prefix + "modules.alias": b"",
        prefix + "modules.builtin": b"kernel/c.ko\n",
        prefix + "kernel/a.ko": ELF + b"a",
        prefix + "kernel/b.ko": ELF + b"b",
        prefix + "kernel/unwanted.ko": ELF,
    }


@pytest.fixture
def image(tmp_path: Path) -> Image:
    directory = tmp_path / "image"
    directory.mkdir()
    base = directory / "initramfs.cpio"
    tar = modules_tar(tmp_path / "modules.tar", one_kernel())
    content, release = base_initramfs(b"busybox", tar, ["b"])
    base.write_bytes(content)
    recipe = read_recipe(ImageSpec())
    manifest = Manifest(recipe.digest, recipe, release, 0, 0.0, {}, {})
    nothing = directory / "unused"
    return Image(recipe.digest, nothing, nothing, release, base, nothing, manifest)


def test_base_holds_busybox_and_the_wanted_modules_in_loading_order(tmp_path: Path) -> None:
    tar = modules_tar(tmp_path / "modules.tar", one_kernel())
    content, release = base_initramfs(b"busybox", tar, ["b", "c"])
    members = read_archive(content)
    assert release == "6.12.0"
    assert members["bin/busybox"].content == b"busybox"
    assert members["bin/busybox"].mode & 0o111
    assert members["modules/6.12.0/order"].content == b"kernel/a.ko\nkernel/b.ko\n"
    assert members["modules/6.12.0/kernel/b.ko"].content == ELF + b"b"
    assert "modules/6.12.0/kernel/unwanted.ko" not in members
    assert stat.S_ISCHR(members["dev/console"].mode)
    assert members["dev/console"].device == (5, 1)


def test_modules_of_two_kernels_or_none_are_refused(tmp_path: Path) -> None:
    for kernels in ({}, one_kernel() | one_kernel("./6.13.0/")):
        tar = modules_tar(tmp_path / "modules.tar", kernels)
        with pytest.raises(InfrastructureError, match="instead of one"):
            base_initramfs(b"", tar, [])


def test_a_module_that_depmod_knows_but_that_is_not_there_is_refused(tmp_path: Path) -> None:
    files = one_kernel()
    del files["./6.12.0/kernel/a.ko"]
    tar = modules_tar(tmp_path / "modules.tar", files)
    with pytest.raises(InfrastructureError, match=r"kernel/a\.ko"):
        base_initramfs(b"", tar, ["b"])


def make_agent(directory: Path, content: str = "print()") -> Path:
    (directory / "sub").mkdir(parents=True)
    (directory / "main.py").write_text(content)
    (directory / "sub" / "part.py").write_text("x = 1")
    (directory / "notes.txt").write_text("not for the guest")
    return directory


def test_composed_archive_has_init_agent_and_payload(image: Image, tmp_path: Path) -> None:
    payload = tmp_path / "payload"
    (payload / "bin").mkdir(parents=True)
    (payload / "bin" / "tool").write_bytes(b"tool")
    (payload / "bin" / "tool").chmod(0o755)
    agent = make_agent(tmp_path / "agent")
    members = read_archive(compose_initramfs(image, agent, payload))
    assert members["init"].mode == stat.S_IFREG | 0o755
    assert members["agent/main.py"].content == b"print()"
    assert members["agent/sub/part.py"].content == b"x = 1"
    assert not any("notes" in path or "__pycache__" in path for path in members)
    assert members["payload/bin/tool"].mode == stat.S_IFREG | 0o755
    assert "bin/busybox" in members


def test_composed_archive_depends_on_contents_not_on_times(image: Image, tmp_path: Path) -> None:
    first = compose_initramfs(image, make_agent(tmp_path / "one"))
    other = make_agent(tmp_path / "two")
    os.utime(other / "main.py", (1, 1))
    assert compose_initramfs(image, other) == first
    changed = make_agent(tmp_path / "three", "print(2)")
    assert compose_initramfs(image, changed) != first
    assert "payload" not in read_archive(first)


def test_links_in_a_payload_stay_links(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("private")
    payload = tmp_path / "payload"
    payload.mkdir()
    (payload / "out").symlink_to(secret)
    (payload / "broken").symlink_to("nowhere")
    entries = {entry.path: entry for entry in payload_entries(payload)}
    assert set(entries) == {"payload", "payload/out", "payload/broken"}
    assert stat.S_ISLNK(entries["payload/out"].mode)
    assert entries["payload/out"].content == os.fsencode(secret)


def test_hard_links_in_a_payload_count_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "git").write_bytes(b"x" * 600)
    (tmp_path / "git-add").hardlink_to(tmp_path / "git")
    monkeypatch.setattr(initramfs, "PAYLOAD_LIMIT_BYTES", 1000)
    members = read_archive(cpio.archive(payload_entries(tmp_path)))
    assert members["payload/git"] == members["payload/git-add"]
    assert (members["payload/git"].content, members["payload/git"].links) == (b"x" * 600, 2)


def test_a_file_that_becomes_a_link_while_it_is_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"public")

    def swap(*_: object) -> None:
        path.unlink()
        path.symlink_to("/etc/hostname")

    monkeypatch.setattr(initramfs, "_check_limits", swap)
    with pytest.raises(PayloadError, match="file for the payload"):
        payload_entries(tmp_path)


def test_a_payload_of_something_else_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(PayloadError, match="pipe is no file"):
        payload_entries(tmp_path)
    with pytest.raises(PayloadError, match="no directory"):
        payload_entries(tmp_path / "missing")


def test_a_payload_has_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(initramfs, "PAYLOAD_LIMIT_BYTES", 1000)
    monkeypatch.setattr(initramfs, "PAYLOAD_LIMIT_FILES", 3)
    (tmp_path / "a").write_bytes(b"x" * 600)
    (tmp_path / "b").write_bytes(b"x" * 400)
    assert len(payload_entries(tmp_path)) == 3
    (tmp_path / "b").write_bytes(b"x" * 401)
    with pytest.raises(PayloadError, match="too large"):
        payload_entries(tmp_path)
    (tmp_path / "b").write_bytes(b"")
    (tmp_path / "c").write_bytes(b"")
    with pytest.raises(PayloadError, match="too large"):
        payload_entries(tmp_path)


def test_a_payload_over_the_limit_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(initramfs.PAYLOAD_LIMIT_BYTES + 1)

    def read(_: Path) -> bytes:
        raise AssertionError("read though its size says that it is too large")

    monkeypatch.setattr(initramfs, "_read_payload_file", read)
    with pytest.raises(PayloadError, match="128 MiB"):
        payload_entries(tmp_path)
