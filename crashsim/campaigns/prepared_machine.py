"""A machine whose guests all have something done in them first."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from crashsim.machines.protocol import Guest, Machine, MachineInfo
from crashsim.workloads.staging import put_payload


@dataclass(frozen=True)
class PreparedMachine:
    """`machine`, with `prepare` called for every guest that it starts."""

    machine: Machine
    prepare: Callable[[Guest], None]

    @property
    def info(self) -> MachineInfo:
        """The machine's own."""
        return self.machine.info

    def start(self) -> Guest:
        """A fresh guest, prepared. Raises what `prepare` and the machine raise."""
        guest = self.machine.start()
        try:
            self.prepare(guest)
        except BaseException:
            guest.kill()
            raise
        return guest


def with_payload(machine: Machine, payload: Path | None) -> Machine:
    """`machine`, with the directory `payload`, if there is one, at /payload in every guest.

    Its guests raise BadPayload when they are started.
    """
    if payload is None:
        return machine
    return PreparedMachine(machine, lambda guest: put_payload(guest, payload))
