"""A machine whose guests all have the user's programs."""

from dataclasses import dataclass
from pathlib import Path

from crashsim.machines.protocol import Guest, Machine, MachineInfo
from crashsim.workloads.staging import put_payload


@dataclass(frozen=True)
class PayloadMachine:
    """`machine`, with the directory `payload` copied to /payload in every guest that it starts."""

    machine: Machine
    payload: Path

    @property
    def info(self) -> MachineInfo:
        """The machine's own."""
        return self.machine.info

    def start(self) -> Guest:
        """A fresh guest with the payload. Raises BadPayload, and what the machine raises."""
        guest = self.machine.start()
        try:
            put_payload(guest, self.payload)
        except BaseException:
            guest.kill()
            raise
        return guest
