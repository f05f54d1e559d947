"""Docker as a Machine: the same virtual machine as `qemu`, each in a container of its own.

For hosts that have Docker and no QEMU, or where a guest should have one more wall around it: the
container has no network, no capability, a read-only root, and the user's own id. Emulation needs
no device; /dev/kvm is passed where it was seen to work in a container.
"""

import functools
from collections.abc import Sequence
from pathlib import Path

from crashsim.machines.accelerator import KVM_DEVICE, try_kvm_once
from crashsim.machines.docker_daemon import reap
from crashsim.machines.docker_image import find_or_build_container_image
from crashsim.machines.docker_process import Container, DockerProcess
from crashsim.machines.images.build import Progress
from crashsim.machines.images.cache import snapshots_directory
from crashsim.machines.images.recipe import ImageSpec
from crashsim.machines.qemu import QemuMachine

MEMORY_NAME = "accelerator-docker.json"


class DockerMachine(QemuMachine):
    """Starts guests in containers. Also removes what dead processes have left of theirs."""

    kind = "docker"

    def __init__(self, spec: ImageSpec | None = None, *, progress: Progress | None = None) -> None:
        """Find both images, or build them, telling `progress`.

        Raises MachineUnusable without a Docker daemon, and what the images raise.
        """
        self._container_image = find_or_build_container_image(progress)
        reap()
        super().__init__(spec, progress=progress)

    def _qemu_version(self) -> str:
        return self._container_image.content

    def _choose_accelerator(self) -> tuple[str, str]:
        if not Path(KVM_DEVICE).exists():
            return "tcg", f"there is no {KVM_DEVICE}"
        image = self._container_image
        container = Container(image.identity, (self.kernel,), kvm=True)
        launch = functools.partial(DockerProcess, container)
        return try_kvm_once(MEMORY_NAME, image.content, self.kernel, launch)

    def _launch(self, arguments: Sequence[str], descriptors: Sequence[int]) -> DockerProcess:
        snapshots = snapshots_directory()
        snapshots.mkdir(parents=True, exist_ok=True)
        container = Container(
            self._container_image.identity,
            (self._image.rootfs, self._image.kernel),
            (snapshots,),
            kvm=self.info.accel == "kvm",
        )
        return DockerProcess(container, arguments, descriptors)
