"""Which accelerator QEMU gets: KVM where it runs, TCG where it does not.

The presence of /dev/kvm says little. Nested and container hosts offer one whose first MSR write
fails, or one that runs the firmware and stops at some instruction of the kernel. So the guest's own
kernel is booted with it, without any root filesystem: KVM works if that kernel gets as far as to
say so, by its panic.
"""

import os
import socket
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import msgspec
import xxhash

from crashsim.machines.images.cache import cache_directory
from crashsim.machines.monitor import Monitor, MonitorFailed
from crashsim.machines.qemu_process import Launch, QemuProcess, RunningQemu, qemu_version

TRIAL_SECONDS = 20.0
POLL_SECONDS = 0.1
KVM_DEVICE = "/dev/kvm"
MEMORY_NAME = "accelerator.json"
_PARAMETERS = "console=ttyS0 panic=-1 loglevel=4 nokaslr mitigations=off"
_BOOTED = b"Kernel panic - not syncing"


class _Trial(msgspec.Struct, frozen=True):
    """The outcome of a trial, kept in the cache: a trial that fails can take ten seconds.

    :ivar key: what it depends on; another boot of the host is another trial.
    :ivar problem: empty where KVM works.
    """

    key: str
    problem: str


@cache
def choose_accelerator(kernel: Path) -> tuple[str, str]:
    """(`kvm` or `tcg`, the reason in words) for a kernel. Tried once in each boot of the host."""
    if not os.path.exists(KVM_DEVICE):
        return "tcg", f"there is no {KVM_DEVICE}"
    if not os.access(KVM_DEVICE, os.R_OK | os.W_OK):
        return "tcg", f"no permission for {KVM_DEVICE} (is the user in the group kvm?)"
    return try_kvm_once(MEMORY_NAME, qemu_version(), kernel, QemuProcess)


def try_kvm_once(memory_name: str, version: str, kernel: Path, launch: Launch) -> tuple[str, str]:
    """(`kvm` or `tcg`, the reason in words), by trying; or as remembered from this boot's trial.

    :param memory_name: the file of the cache directory that remembers.
    :param version: of what `launch` starts; another one is tried anew.
    """
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    key = f"{boot} {version} {xxhash.xxh3_128_hexdigest(kernel.read_bytes())}"
    memory = cache_directory() / memory_name
    trial = _remembered(memory)
    if trial is None or trial.key != key:
        trial = _Trial(key, try_accelerator("kvm", kernel, launch))
        _remember(memory, trial)
    if trial.problem:
        return "tcg", f"{KVM_DEVICE} is there but {trial.problem}"
    return "kvm", "it works"


def _remembered(path: Path) -> _Trial | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Trial)
    except (OSError, msgspec.DecodeError):
        return None  # not there, or of another version: then it is tried


def _remember(path: Path, trial: _Trial) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{MEMORY_NAME}-")
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.json.encode(trial))
    os.replace(name, path)


def try_accelerator(name: str, kernel: Path, launch: Launch = QemuProcess) -> str:
    """Boot the kernel under an accelerator; empty if that works, else what went wrong."""
    ours, theirs = zip(*(socket.socketpair() for _ in range(2)), strict=True)
    try:
        descriptors = [end.fileno() for end in theirs]
        process = launch(_trial_arguments(name, kernel, *descriptors), descriptors)
    finally:
        for end in theirs:
            end.close()
    try:
        return _watch(process, *ours)
    finally:
        process.kill()
        for end in ours:
            end.close()


def _watch(process: RunningQemu, monitor_socket: socket.socket, console: socket.socket) -> str:
    status = "unknown"
    try:
        monitor = Monitor(monitor_socket)
        for output in _console_output(console):
            if _BOOTED in output:
                monitor.close()
                return ""
            status = monitor.execute("query-status")["status"]
            if status != "running":
                break
        monitor.close()
    except MonitorFailed:
        process.wait(1.0)
        complaint = process.stderr().replace("\n", "; ")
        return f"QEMU fails with it: {complaint or 'without a word'}"
    if status == "running":
        return f"the guest's kernel did not boot with it in {TRIAL_SECONDS:.0f} s"
    return f"the virtual processor stops in the guest's kernel ({status})"


def _console_output(console: socket.socket) -> Iterator[bytes]:
    """All that was printed so far, after each poll, until the time is over or QEMU has ended."""
    deadline = time.monotonic() + TRIAL_SECONDS
    console.settimeout(POLL_SECONDS)
    output = b""
    while time.monotonic() < deadline:
        try:
            data = console.recv(1 << 16)
        except TimeoutError:
            yield output
            continue
        output += data
        yield output
        if not data:
            return


def _trial_arguments(name: str, kernel: Path, monitor: int, console: int) -> list[str]:
    cpu = "host" if name == "kvm" else "max"
    return [
        *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-m", "256"),
        *("-machine", f"pc,accel={name}", "-cpu", cpu),
        *("-chardev", f"socket,id=monitor,fd={monitor}", "-mon", "chardev=monitor,mode=control"),
        *("-chardev", f"socket,id=console,fd={console}", "-serial", "chardev:console"),
        *("-kernel", str(kernel), "-append", _PARAMETERS),
    ]
