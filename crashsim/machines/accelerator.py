"""Which accelerator QEMU gets: KVM where it runs, TCG where it does not.

The presence of /dev/kvm says little: nested and container hosts offer one whose first MSR write or
KVM_RUN fails. So a virtual machine is started with it. Its firmware, SeaBIOS, writes its banner to the
debug port 0x402 (SeaBIOS' and QEMU's documentation of `isa-debugcon`): if that arrives, the virtual
CPU has executed real instructions.
"""

import os
import socket
from functools import cache

from crashsim.machines.qemu_process import QemuProcess

TRIAL_SECONDS = 10.0
KVM_DEVICE = "/dev/kvm"


@cache
def choose_accelerator() -> tuple[str, str]:
    """(`kvm` or `tcg`, the reason in words). Tried once in each process."""
    if not os.path.exists(KVM_DEVICE):
        return "tcg", f"there is no {KVM_DEVICE}"
    if not os.access(KVM_DEVICE, os.R_OK | os.W_OK):
        return "tcg", f"no permission for {KVM_DEVICE} (is the user in the group kvm?)"
    problem = try_accelerator("kvm")
    return ("tcg", f"{KVM_DEVICE} is there but fails: {problem}") if problem else ("kvm", "it works")


def try_accelerator(name: str) -> str:
    """Run SeaBIOS under the accelerator; empty if it executes, else why not, for people."""
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            process = QemuProcess(_trial_arguments(name, theirs.fileno()), [theirs.fileno()])
        ours.settimeout(TRIAL_SECONDS)
        try:
            executed = bool(ours.recv(1))
        except TimeoutError:
            executed = False
        except ConnectionResetError:
            executed = False
        ended = process.wait(0) if executed else process.wait(1.0)
        process.kill()
    if executed:
        return ""
    if ended is None:
        return f"the virtual CPU executed nothing in {TRIAL_SECONDS:.0f} s"
    return process.stderr().replace("\n", "; ") or f"QEMU ended with status {ended}"


def _trial_arguments(name: str, debug_descriptor: int) -> list[str]:
    cpu = "host" if name == "kvm" else "max"
    return [
        *("-nodefaults", "-no-user-config", "-display", "none", "-m", "64"),
        *("-machine", f"pc,accel={name}", "-cpu", cpu),
        *("-chardev", f"socket,id=debug,fd={debug_descriptor}"),
        *("-device", "isa-debugcon,iobase=0x402,chardev=debug"),
    ]
