"""Building images, with stand-ins for the programs that do the work."""

import errno
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from crashsim.errors import InfrastructureError
from crashsim.machines.images import BuildProgress, ImageSpec, cache, find_or_build_image
from crashsim.machines.images.kernel import KernelError, kernel_release
from crashsim.machines.images.mmdebstrap import ImageBuildFailed
from tests.support.cpio_archive import read_archive
from tests.support.image_cache import bzimage, fake_tools

BUILD = """
from crashsim.machines.images import ImageSpec, find_or_build_image
find_or_build_image(ImageSpec(), lambda progress: print(progress.phase, flush=True))
"""


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in fake_tools(tmp_path, namespaces=False).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    monkeypatch.setenv("CRASHSIM_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path


def left_behind(workshop: Path) -> list[str]:
    """Names of everything in cache and scratch that is neither lock nor image."""
    places = (workshop / "cache" / "images", workshop / "scratch")
    names = [path.name for place in places if place.exists() for path in place.iterdir()]
    return [name for name in names if name != ".lock" and name not in cache.image_digests()]


def test_an_image_is_built_once_and_then_found(workshop: Path) -> None:
    phases: list[BuildProgress] = []
    image = find_or_build_image(ImageSpec(), phases.append)
    assert image.kernel_release == "6.12.0"
    assert image.manifest.packages == {"git": "1:2.47.3", "python3": "3.13"}
    assert image.rootfs.read_bytes() == b"root file system"
    assert read_archive(image.base_initramfs.read_bytes())["bin/busybox"].content == b"busybox"
    fractions = [each.fraction for each in phases]
    assert phases[0].phase == "reading package lists"
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0
    phases.clear()
    assert find_or_build_image(ImageSpec(), phases.append) == image
    assert phases == []
    assert left_behind(workshop) == []
    assert len((workshop / "result" / "started").read_text().split()) == 1


def test_a_failed_build_shows_what_was_said_and_leaves_nothing(workshop: Path) -> None:
    (workshop / "result" / "failure").write_text("E: Unable to locate package nosuch\n")
    with pytest.raises(ImageBuildFailed, match="Unable to locate package nosuch"):
        find_or_build_image(ImageSpec())
    assert left_behind(workshop) == []
    assert cache.image_digests() == []


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ("genext2fs: fseek: No space left on device", "free some space"),
        ("E: The repository is not signed. NO_PUBKEY 6ED0E7B82643E131", "debian-archive-keyring"),
    ],
)
def test_a_failed_build_says_what_to_do(workshop: Path, said: str, advice: str) -> None:
    (workshop / "result" / "failure").write_text(said)
    with pytest.raises(ImageBuildFailed, match=advice):
        find_or_build_image(ImageSpec())


def test_a_disk_that_gets_full_leaves_nothing(
    workshop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(cache, "publish", full)
    with pytest.raises(ImageBuildFailed, match="No space left on device; free some"):
        find_or_build_image(ImageSpec())
    assert left_behind(workshop) == []
    assert cache.image_digests() == []


def test_a_result_without_modules_is_no_image(workshop: Path) -> None:
    (workshop / "result" / "image" / "modules.tar").write_bytes(b"no tar")
    with pytest.raises(InfrastructureError, match="modules"):
        find_or_build_image(ImageSpec())
    assert left_behind(workshop) == []


@pytest.mark.parametrize("tool", ["mmdebstrap", "genext2fs", "apt-config"])
def test_a_missing_program_is_named_with_its_package(
    workshop: Path, tool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workshop / "tools" / tool).unlink()
    for name in ("setpriv", "unshare"):
        (workshop / "tools" / name).write_text("#!/bin/sh\n")
        (workshop / "tools" / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(workshop / "tools"))
    with pytest.raises(InfrastructureError, match=f"{tool}: install the Debian package"):
        find_or_build_image(ImageSpec())


def test_a_host_without_namespaces_is_told_what_they_need(workshop: Path) -> None:
    (workshop / "tools" / "unshare").write_text("#!/bin/sh\necho not permitted >&2; exit 1\n")
    with pytest.raises(InfrastructureError, match=r"not permitted.*uidmap"):
        find_or_build_image(ImageSpec())


def test_too_little_space_is_said_before_anything_is_done(
    workshop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crashsim.machines.images.build._SCRATCH_BYTES", 1 << 60)
    with pytest.raises(InfrastructureError, match="free space"):
        find_or_build_image(ImageSpec())
    assert not (workshop / "result" / "started").exists()


@pytest.fixture
def gate(workshop: Path) -> Iterator[Path]:
    """Builds stop in the middle until something is written here."""
    path = workshop / "result" / "gate"
    os.mkfifo(path)
    # Held open so that the fixture's end lets go whoever still waits.
    descriptor = os.open(path, os.O_RDWR)
    yield path
    os.write(descriptor, b"go\n" * 10)
    os.close(descriptor)


@contextmanager
def build_in_another_process() -> "Iterator[subprocess.Popen[str]]":
    with subprocess.Popen(
        [sys.executable, "-c", BUILD], stdout=subprocess.PIPE, text=True
    ) as child:
        try:
            yield child
        finally:
            child.kill()


def wait_for(process: "subprocess.Popen[str]", phase: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if line.strip() == phase:
            return
    pytest.fail(f"the build ended before it said {phase!r}")


def ends(process: int) -> bool:
    """Whether a process is gone, or goes: one closes its files a little before it is gone."""
    try:
        descriptor = os.pidfd_open(process)
    except ProcessLookupError:
        return True
    with os.fdopen(descriptor) as ended:
        return bool(select.select([ended], [], [], 10)[0])


def test_two_builds_of_one_image_do_one_piece_of_work(workshop: Path, gate: Path) -> None:
    with build_in_another_process() as first:
        wait_for(first, "unpacking essential packages")
        waits = threading.Event()

        def report(progress: BuildProgress) -> None:
            if progress.phase == "waiting for another build":
                waits.set()

        images = []
        second = threading.Thread(
            target=lambda: images.append(find_or_build_image(ImageSpec(), report))
        )
        second.start()
        assert waits.wait(60)
        gate.write_text("go\n")
        second.join(60)
        assert first.wait(60) == 0
    assert [image.digest for image in images] == cache.image_digests()
    assert len((workshop / "result" / "started").read_text().split()) == 1


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_build_that_dies_leaves_no_image_and_the_next_cleans_up(
    workshop: Path, gate: Path, signal_number: signal.Signals
) -> None:
    with build_in_another_process() as process:
        wait_for(process, "unpacking essential packages")
        assert any(name.startswith("crashsim-image-") for name in left_behind(workshop))
        process.send_signal(signal_number)
        assert process.wait(60) == -signal_number
    # The lock is free once all that the build had started are gone too.
    with cache.building_lock():
        assert ends(int((workshop / "result" / "started").read_text()))
    assert cache.image_digests() == []
    if signal_number == signal.SIGINT:
        assert left_behind(workshop) == []
    gate.unlink()  # the next build shall not stop
    find_or_build_image(ImageSpec())
    assert left_behind(workshop) == []


def test_the_lock_is_held_as_long_as_anything_of_the_build_lives(workshop: Path) -> None:
    find_or_build_image(ImageSpec())
    lock = workshop / "cache" / "images" / ".lock"
    assert f"-> {lock}\n" in (workshop / "result" / "descriptors").read_text()


def test_cleaning_up_removes_nothing_that_is_not_ours(workshop: Path) -> None:
    precious = workshop / "precious"
    precious.mkdir()
    dead = workshop / "cache" / "images" / ".building-dead"
    dead.mkdir(parents=True)
    (dead / "scratch").write_text(str(precious))
    find_or_build_image(ImageSpec())
    assert precious.is_dir()
    assert not dead.exists()


def test_a_kernel_of_the_users_own_replaces_the_images(workshop: Path) -> None:
    kernel = workshop / "bzImage"
    kernel.write_bytes(bzimage("6.99.0-rc1"))
    plain = find_or_build_image(ImageSpec())
    image = find_or_build_image(ImageSpec(kernel=kernel))
    assert image.kernel == kernel
    assert image.kernel_release == "6.99.0-rc1"
    assert (image.digest, image.rootfs) == (plain.digest, plain.rootfs)


@pytest.mark.parametrize(
    "content", [b"", bzimage("6.12.0").replace(b"HdrS", b"\x7fELF"), bzimage("")[:0x400]]
)
def test_what_is_no_kernel_is_refused_before_anything_is_built(
    workshop: Path, content: bytes
) -> None:
    kernel = workshop / "vmlinux"
    kernel.write_bytes(content)
    with pytest.raises(KernelError, match="vmlinux"):
        find_or_build_image(ImageSpec(kernel=kernel))
    with pytest.raises(KernelError, match="missing"):
        kernel_release(workshop / "missing")
    assert cache.image_digests() == []
