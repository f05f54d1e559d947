"""The Vagrant VM itself, by the program `vagrant`: its state, its snapshot, and how ssh gets in."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from crashsim.machines.failures import MachineUnusable

VAGRANT = "vagrant"
SSH = "ssh"
SNAPSHOT = "crashsim"
"""What the VM was like before the first run: every run begins with it."""

COMMAND_SECONDS = 600.0
HOST = "default"
"""What `vagrant ssh-config` calls a VM that has no name of its own (Vagrantfile, vm.define)."""


class VagrantVm:
    """The VM of the Vagrantfile that Vagrant finds from the working directory on."""

    def __init__(self) -> None:
        """Look whether it runs. Raises MachineUnusable, in one line, where it does not."""
        for program, package in ((VAGRANT, "vagrant"), (SSH, "openssh-client")):
            if shutil.which(program) is None:
                raise MachineUnusable(
                    f"--machine vagrant needs {program}: install the Debian package {package}"
                )
        place = Path(os.environ.get("VAGRANT_CWD", os.curdir)).absolute()
        if not any((parent / "Vagrantfile").exists() for parent in (place, *place.parents)):
            raise MachineUnusable(
                f"no Vagrantfile in {place} or above: --machine vagrant is called in crashsim's "
                "directory, where vagrant up has been called (docs/vagrant.md)"
            )
        state = read_state(self._vagrant("status", "--machine-readable"))
        if state == "inaccessible":  # what vagrant-libvirt says then
            raise MachineUnusable(
                "the Vagrant VM runs and has no address that Vagrant knows: its DHCP lease has run "
                "out; call vagrant reload"
            )
        if state != "running":
            raise MachineUnusable(
                f"the Vagrant VM is not running ({state}): go to crashsim's directory, which has "
                "the Vagrantfile, and call vagrant up (docs/vagrant.md says how to get its box)"
            )

    def restore(self) -> None:
        """Bring it back to its snapshot; the first time, make that."""
        if SNAPSHOT in read_snapshots(self._vagrant("snapshot", "list")):
            self._vagrant("snapshot", "restore", "--no-provision", SNAPSHOT)
        else:
            self._vagrant("snapshot", "save", SNAPSHOT)

    def ssh_config(self) -> str:
        """For ssh -F."""
        return self._vagrant("ssh-config")

    def _vagrant(self, *arguments: str) -> str:
        return call([VAGRANT, *arguments], f"vagrant {' '.join(arguments)}")


def call(argv: Sequence[str], what: str, stdin: bytes = b"") -> str:
    """What a program prints. Raises MachineUnusable with the end of what it complained about."""
    environment = {**os.environ, "VAGRANT_CHECKPOINT_DISABLE": "1"}
    try:
        done = subprocess.run(
            argv,
            input=stdin,
            capture_output=True,
            env=environment,
            timeout=COMMAND_SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise MachineUnusable(f"{what} failed: {error}") from error
    if done.returncode != 0:
        said = " ".join((done.stderr or done.stdout).decode("utf-8", "replace").split())
        raise MachineUnusable(f"{what} ended with {done.returncode}: {said[-600:]}")
    return done.stdout.decode("utf-8", "replace")


def read_state(status: str) -> str:
    """The VM's state in `vagrant status --machine-readable`: lines of time,target,type,data."""
    for line in status.splitlines():
        fields = line.split(",")
        if len(fields) >= 4 and fields[2] == "state":
            return fields[3]
    raise MachineUnusable("vagrant status tells of no VM: is this another project's Vagrantfile?")


def read_snapshots(listed: str) -> list[str]:
    """The names in what `vagrant snapshot list` prints; other lines begin with `==>`."""
    lines = [line.strip() for line in listed.splitlines()]
    return [line for line in lines if line and not line.startswith(("==>", "default:"))]


def ssh_command(config: Path, *options: str) -> list[str]:
    """ssh to the VM; the remote command goes behind it."""
    return [
        *(SSH, "-F", str(config), "-T", "-o", "BatchMode=yes", "-o", "LogLevel=ERROR"),
        *options,
        HOST,
    ]
