"""Real guest images: what a guest finds in them, and what a killed build leaves on the host."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from crashsim.machines.failures import Cause, GuestDied
from crashsim.machines.images import ImageSpec, cache, find_or_build_image
from crashsim.machines.images.initramfs import PAYLOAD_LIMIT_BYTES
from crashsim.machines.protocol import Guest
from crashsim.machines.qemu import BOOT_SECONDS, QemuMachine
from tests.support.image_cache import fake_tools

pytestmark = pytest.mark.vm

MODULES = (
    "import asyncio, bz2, ctypes, curses, dbm.sqlite3, email, http.client, json, lzma, mmap, "
    "multiprocessing, readline, sqlite3, ssl, unittest, xml.etree.ElementTree, zlib, zoneinfo"
)
PROGRAMS = (
    "git mkfs.ext4 mkfs.xfs mkfs.btrfs mkfs.f2fs fsck.ext4 xfs_repair btrfs fsck.f2fs debugfs "
    "dmsetup strace sqlite3 mount losetup python3 perl crashsim-test-tool"
)
LOOPBACK = """
flags = int(open("/sys/class/net/lo/flags").read(), 16)
print(",".join(name for bit, name in ((8, "LOOPBACK"), (1, "UP")) if flags & bit))
"""
BUILD = """
from crashsim.machines.images import ImageSpec, find_or_build_image
find_or_build_image(ImageSpec(), lambda progress: print(progress.phase, flush=True))
"""


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> QemuMachine:
    payload = tmp_path_factory.mktemp("payload")
    (payload / "bin").mkdir()
    tool = payload / "bin" / "crashsim-test-tool"
    tool.write_text("#!/bin/sh\necho from the payload\n")
    tool.chmod(0o755)
    (payload / "link").symlink_to("/outside/../of it")
    (payload / "twin").hardlink_to(tool)
    return QemuMachine(ImageSpec(payload=payload))


def output(guest: Guest, argv: Sequence[str]) -> str:
    result = guest.run(argv)
    assert result.returncode == 0, result.stderr.decode()
    return result.stdout.decode()


def test_a_guest_has_what_workloads_need(machine: QemuMachine) -> None:
    with machine.start() as guest:
        output(guest, ["python3", "-c", MODULES])
        for program in PROGRAMS.split():
            output(guest, ["sh", "-c", f"command -v {program}"])
        filesystems = output(guest, ["cat", "/proc/filesystems"]).split()
        assert {"ext4", "xfs", "btrfs", "f2fs", "overlay"} <= set(filesystems)
        targets = output(guest, ["dmsetup", "targets"])
        assert "flakey" in targets
        assert "log-writes" in targets
        assert output(guest, ["cat", "/sys/kernel/rcu_expedited"]) == "1\n"
        assert "LOOPBACK,UP" in output(guest, ["python3", "-c", LOOPBACK])


def test_a_payload_is_in_the_guest_and_on_its_path(machine: QemuMachine) -> None:
    with machine.start() as guest:
        assert output(guest, ["crashsim-test-tool"]) == "from the payload\n"
        output(guest, ["test", "/payload/twin", "-ef", "/payload/bin/crashsim-test-tool"])
        assert output(guest, ["readlink", "/payload/link"]) == "/outside/../of it\n"


@pytest.mark.slow
def test_the_largest_payload_leaves_the_guest_enough_memory(tmp_path: Path) -> None:
    size = PAYLOAD_LIMIT_BYTES - 1000
    (tmp_path / "blob").write_bytes(bytes(range(250)) * (size // 250))
    with QemuMachine(ImageSpec(payload=tmp_path)).boot(tmp_path.with_name("memory")) as guest:
        guest.wait_for_agent(BOOT_SECONDS)
        assert int(output(guest, ["stat", "-c", "%s", "/payload/blob"])) == size // 250 * 250
        output(guest, ["dd", "if=/dev/zero", "of=/tmp/more", "bs=1M", "count=128"])


def test_what_a_guest_writes_reaches_neither_the_image_nor_another_guest(
    machine: QemuMachine,
) -> None:
    with machine.start() as guest:
        output(guest, ["sh", "-c", "echo spoilt >/usr/bin/git; rm /etc/passwd; sync"])
        assert output(guest, ["cat", "/usr/bin/git"]) == "spoilt\n"
    with machine.start() as guest:
        assert "git version" in output(guest, ["git", "--version"])
        output(guest, ["test", "-f", "/etc/passwd"])
    cache.verify_image(find_or_build_image(ImageSpec()))


def test_the_console_tells_when_the_agent_has_gone(machine: QemuMachine) -> None:
    kill = "import os, signal; os.kill(os.getppid(), signal.SIGKILL)"
    with machine.start() as guest, pytest.raises(GuestDied) as death:
        guest.run(["python3", "-c", kill])
    assert death.value.cause == Cause.AGENT_GONE
    assert any("agent exited with status 137" in line for line in death.value.console)


def running_with(argument: str) -> list[int]:
    """Processes that have `argument` somewhere in their command line."""
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            command = (directory / "cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if os.fsencode(argument) in command:
            found.append(int(directory.name))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGKILL])
def test_a_killed_build_leaves_no_mounts_and_no_processes(
    tmp_path: Path, signal_number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache_directory = tmp_path / "cache"
    monkeypatch.setenv("CRASHSIM_CACHE_DIR", str(cache_directory))
    with subprocess.Popen(
        [sys.executable, "-c", BUILD], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        phases = (line.strip() for line in process.stdout)
        assert "installing essential packages" in phases  # by then the chroot has its mounts
        assert running_with(str(cache_directory))
        process.send_signal(signal_number)
    # Nobody else has the lock, so all that belonged to the build is over.
    with cache.building_lock():
        assert running_with(str(cache_directory)) == []
        assert "crashsim-image-" not in Path("/proc/mounts").read_text()
        scratch = [Path(path.read_text()) for path in cache_directory.glob("images/*/scratch")]
    assert cache.image_digests() == []
    assert len(scratch) == (signal_number == signal.SIGKILL)
    # The next build, by stand-ins, removes what the killed one left, whoever owns it.
    for name, value in fake_tools(tmp_path, namespaces=True).items():
        monkeypatch.setenv(name, value)
    image = find_or_build_image(ImageSpec())
    assert not any(path.exists() for path in scratch)
    names = [path.name for path in (cache_directory / "images").iterdir()]
    assert sorted(names) == [".lock", image.digest]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_an_image_can_be_built_from_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CRASHSIM_CACHE_DIR", str(tmp_path))
    image = find_or_build_image(ImageSpec())
    cache.verify_image(image)
    assert image.rootfs.stat().st_size < 600e6
    assert {"git", "python3", "xfsprogs", "linux-image-amd64"} <= set(image.manifest.packages)
    assert [path.name for path in (tmp_path / "images").iterdir() if path.name != ".lock"] == [
        image.digest
    ]
