"""A Vagrant VM as a Machine: for hosts without QEMU and Docker, and for hands-on work.

Guests are rooms in that one VM: they share its kernel, which is under test. Nothing is nested. The
VM goes back to its snapshot when this begins, and whenever its kernel is in doubt. Its clock is
left alone: it is a VM that people work in.
"""

import io
import itertools
import tarfile
import tempfile
import threading
from dataclasses import replace
from pathlib import Path

from crashsim.errors import UsageError
from crashsim.machines.failures import MachineUnusable
from crashsim.machines.images.recipe import ImageSpec
from crashsim.machines.protocol import MachineInfo
from crashsim.machines.vagrant_guest import VagrantGuest
from crashsim.machines.vagrant_side.staging import guest_files
from crashsim.machines.vagrant_vm import VagrantVm, call, ssh_command

HELLO_SECONDS = 60.0
_RENEW = (
    "for device in /sys/class/net/e*; do device=${device##*/}; "
    'sudo networkctl renew "$device" || sudo dhclient "$device"; done >/dev/null 2>&1'
)
"""Whoever goes back to a snapshot again and again never comes to renew its lease, and after an hour
Vagrant does not know its address any more."""

_UNPACK = 'd=$(mktemp -d /tmp/crashsim.XXXXXX) && tar -xC "$d" && echo "$d"'


class VagrantMachine:
    """Starts guests in the VM of the Vagrantfile.

    :ivar info: what is known of it.
    """

    kind = "vagrant"

    def __init__(self, spec: ImageSpec | None = None) -> None:
        """Find the VM running. Raises MachineUnusable, and UsageError for a `--kernel`."""
        if spec is not None and (spec.kernel is not None or spec.payload is not None):
            raise UsageError("--machine vagrant takes the kernel that is in the VM")
        self._vm = VagrantVm()
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._guests: list[VagrantGuest] = []
        self._code = ""
        self._config = tempfile.TemporaryDirectory(prefix="crashsim-vagrant-")
        self._config_file = Path(self._config.name) / "ssh-config"
        self.info = MachineInfo(self.kind, "vagrant", "", "the VM of the Vagrantfile", True)

    def start(self) -> VagrantGuest:
        """A fresh guest in the VM, which is brought back to its snapshot first if that is in doubt.

        Raises MachineUnusable and GuestDied.
        """
        guest, is_tainted = self._start()
        if is_tainted:
            guest.kill()
            self._code = ""
            guest, is_tainted = self._start()
        if is_tainted:
            guest.kill()
            raise MachineUnusable("the VM's kernel is tainted before anything was tested")
        return guest

    def _start(self) -> tuple[VagrantGuest, bool]:
        """A guest, and whether the kernel has complained since the VM's snapshot was made."""
        with self._lock:
            self._guests = [guest for guest in self._guests if not self._is_over(guest)]
            if not self._code:
                self._prepare()
            ssh = ssh_command(self._config_file)
            guest = VagrantGuest(self.info, ssh, self._code, next(self._numbers))
            self._guests.append(guest)
        try:
            hello = guest.hello(HELLO_SECONDS)
            self.info = guest.info = replace(self.info, kernel=hello.kernel)
        except BaseException:
            guest.kill()
            raise
        return guest, hello.tainted

    def _is_over(self, guest: VagrantGuest) -> bool:
        """Whether a guest is over. The VM is distrusted if it ended badly."""
        if guest.is_over and not guest.ended_in_order:
            self._code = ""
        return guest.is_over

    def _prepare(self) -> None:
        """Bring the VM back to its snapshot and our programs into it."""
        self._vm.restore()
        self._config_file.write_text(self._vm.ssh_config())
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            for path, content in guest_files().items():
                member = tarfile.TarInfo(path)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
        ssh = ssh_command(self._config_file)
        call([*ssh, f"{_RENEW} || true"], "ssh to the Vagrant VM")
        self._code = call([*ssh, _UNPACK], "ssh to the Vagrant VM", buffer.getvalue()).strip()
