"""Whatever goes wrong: one clear line, the right exit code, nothing left behind, no data lost."""

import os
import select
import signal
import subprocess
from pathlib import Path

import pytest

from crashsim.disk.log import Log
from crashsim.machines.qemu import QemuMachine
from tests.support.crashsim_command import Command, crashsim

pytestmark = [pytest.mark.vm, pytest.mark.timeout(600)]

GIT = ("run", "--target", "git", "--sequence", "commit", "--fs", "ext4", "--states", "2000")


def events(directory: Path) -> int:
    """How many events the first recording below `directory` holds by now."""
    logs = sorted(directory.glob("crashsim-out/*/recording/events.bin"))
    return logs[0].stat().st_size // 32 if logs else 0


def is_readable(directory: Path) -> bool:
    """Whether what was recorded can be opened."""
    (recording,) = directory.glob("crashsim-out/*/recording")
    with Log.open(recording) as log:
        return log.event_count > 0


def exploring(command: Command, directory: Path) -> bool:
    """Whether recording is over and guests recover crash states."""
    done = [*directory.glob("crashsim-out/*/recording-quiet/recording.json")]
    return bool(done) and '"complete": true' in done[0].read_text() and bool(qemus(command))


def qemus(command: Command) -> list[int]:
    return [number for number, name in command.others().items() if name.startswith("qemu")]


def assert_one_line(finished: subprocess.CompletedProcess[str], *words: str) -> None:
    assert "Traceback" not in finished.stderr
    assert finished.stderr.startswith("crashsim: ") or "crashsim: " in finished.stderr
    for word in words:
        assert word in finished.stderr


@pytest.mark.parametrize("stage", ["recording", "exploring"])
@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGKILL])
def test_ending_crashsim_leaves_nothing_but_a_readable_recording(
    machine: QemuMachine, tmp_path: Path, stage: str, signal_number: int
) -> None:
    command = Command(GIT, tmp_path).start()
    if stage == "recording":
        command.wait_until(lambda: events(tmp_path) > 300)
    else:
        command.wait_until(lambda: exploring(command, tmp_path))

    os.kill(command.process.pid, signal_number)
    finished = command.finish(60)

    assert_nothing_lives_on(command)
    assert is_readable(tmp_path)
    if signal_number == signal.SIGINT:
        assert finished.returncode == 130
        assert_one_line(finished, "interrupted")


def assert_nothing_lives_on(command: Command) -> None:
    """QEMU is told of its parent's death by a signal: it ends at once, but not in no time."""
    for number in command.others():
        try:
            descriptor = os.pidfd_open(number)
        except ProcessLookupError:
            continue
        with os.fdopen(descriptor) as ended:
            assert select.select([ended], [], [], 10)[0], f"process {number} lives on"


def test_a_killed_qemu_is_an_infrastructure_failure(machine: QemuMachine, tmp_path: Path) -> None:
    command = Command(GIT, tmp_path).start()
    command.wait_until(lambda: events(tmp_path) > 300)

    for number in qemus(command):
        os.kill(number, signal.SIGKILL)
    finished = command.finish()

    assert finished.returncode == 3
    assert_one_line(finished, "guest died")
    assert command.others() == {}
    assert is_readable(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="LOUD: mounting a tiny tmpfs takes root")
def test_a_full_disk_ends_a_recording_and_keeps_what_there_is(
    machine: QemuMachine, tmp_path: Path
) -> None:
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "crashsim-test", small], check=True)
    try:
        finished = crashsim(tmp_path, *GIT, "--out", str(small))

        assert finished.returncode == 3
        assert_one_line(finished, "space")
        (recording,) = small.glob("*/recording")
        with Log.open(recording) as log:
            assert log.event_count > 0
    finally:
        subprocess.run(["umount", small], check=True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--fs", "zfs"), ("unknown filesystem 'zfs'", "ext4, xfs, btrfs, f2fs")),
        (("--fs", "ext4:data=sideways"), ("data=sideways",)),
        (("--fsync", "everything"), ("everything", "loose-object")),
        (("--method", "hope"), ("hope", "writeout-only")),
        (("--target", "subversion"), ("subversion",)),
        (("--sequence", "rebase"), ("rebase",)),
        (("--disturb", "earthquake"), ("earthquake",)),
        (("--property", "pretty"), ("pretty",)),
        (("--device", "tape"), ("tape",)),
        (("--states", "many"), ("--states",)),
        (("--machine", "mainframe"), ("mainframe",)),
        (("--kernel", "/nonexistent/bzImage"), ("/nonexistent/bzImage",)),
    ],
)
def test_wrong_input_is_told_in_one_line(
    machine: QemuMachine, tmp_path: Path, arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    finished = crashsim(tmp_path, "run", "--states", "2", *arguments)

    assert finished.returncode == 2, finished.stderr
    assert_one_line(finished, *words)


@pytest.mark.parametrize("content", [b"", b"not a bundle", b"PK\x05\x06" + bytes(18)])
def test_a_damaged_bundle_is_told_in_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "case.crashsim").write_bytes(content)

    finished = crashsim(tmp_path, "repro", "case.crashsim")

    assert finished.returncode == 2
    assert_one_line(finished, "case.crashsim")
