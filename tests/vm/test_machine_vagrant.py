"""Vagrant as a machine, where its VM runs: not in CI, whose hosts have none (docs/vagrant.md)."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from crashsim.machines.failures import MachineUnusable
from crashsim.machines.protocol import KernelRecordingGuest
from crashsim.machines.vagrant import VagrantMachine
from tests.vm.conformance import (
    CommandConformance,
    FilesystemConformance,
    MarkConformance,
    disk,
    text,
)

pytestmark = [pytest.mark.vm, pytest.mark.timeout(1800)]
__all__ = ["disk"]

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def machine() -> Iterator[VagrantMachine]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        try:
            yield VagrantMachine()
        except MachineUnusable as error:
            pytest.skip(f"MACHINE VAGRANT IS NOT TESTED: {error}")


class TestCommands(CommandConformance):
    # Its clock is the VM's own.
    test_all_guests_start_at_the_same_time_of_day = None  # type: ignore[assignment]


class TestMarks(MarkConformance):
    pass


class TestFilesystems(FilesystemConformance):
    pass


def test_what_a_guest_does_to_the_vm_is_gone_with_it(machine: VagrantMachine) -> None:
    with machine.start() as guest:
        assert isinstance(guest, KernelRecordingGuest)
        text(guest, "touch /etc/changed /run/changed /payload; sleep 1000 & true")
    with machine.start() as guest:
        assert text(guest, "ls -d /etc/changed /run/changed /payload 2>/dev/null || true") == ""
        assert text(guest, "grep -c sleep /proc/[0-9]*/comm | grep -c ':1' || true") == "0\n"


def test_a_run_finds_the_fault_of_the_example(machine: VagrantMachine, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "crashsim.cli", "run", "--machine", "vagrant", "--fs", "ext4"]
    command += ["--payload", "examples/config-writer", "--check", "config-check"]
    command += ["--out", str(tmp_path), "--states", "40", "--", "config-write", "--naive"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=1700, check=False
    )

    assert done.returncode == 1, done.stdout + done.stderr
