"""Which kind of machine runs the guests."""

from crashsim.errors import UsageError
from crashsim.machines.images.build import Progress
from crashsim.machines.images.recipe import ImageSpec
from crashsim.machines.protocol import Machine
from crashsim.machines.qemu import QemuMachine
from crashsim.machines.vagrant import VagrantMachine

KINDS = ("auto", "qemu", "docker", "vagrant")


class UnknownMachine(UsageError):
    """A kind of machine was asked for that crashsim does not have."""


def choose_machine(
    kind: str = "auto", spec: ImageSpec | None = None, *, progress: Progress | None = None
) -> Machine:
    """The machine of a kind; `auto` is QEMU. Raises UnknownMachine, and what the machine raises."""
    if kind not in KINDS:
        raise UnknownMachine(f"unknown machine {kind!r}: take one of {', '.join(KINDS)}")
    if kind == "docker":
        # Its package is needed by those alone who ask for it.
        from crashsim.machines.docker import DockerMachine

        return DockerMachine(spec, progress=progress)
    if kind == "vagrant":
        return VagrantMachine(spec)
    return QemuMachine(spec, progress=progress)
