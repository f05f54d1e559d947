"""How much sooner a guest from the boot snapshot answers than one that boots."""

import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from crashsim.campaigns.benchmark import Benchmark, Meter, Ratio, alternate, figure
from crashsim.campaigns.options import Progress
from crashsim.machines.qemu import BOOT_SECONDS, QemuMachine


def bench_machine(rounds: int, progress: Progress) -> Benchmark:
    """Boot and restore in turn, each up to the first command's answer.

    Raises InfrastructureError where no guest comes up.
    """
    machine = QemuMachine()
    with machine.start():
        pass  # makes the snapshot, which is not what is measured
    boots, restores = Meter(), Meter()
    alternate(
        [lambda: _boot(machine, boots), lambda: _restore(machine, restores)], rounds, progress
    )
    return Benchmark(
        "machine",
        [
            figure("cold boot", "s", boots.seconds),
            figure("from snapshot", "s", restores.seconds),
            figure("CPU time: cold boot", "s", boots.cpu_seconds),
            figure("CPU time: from snapshot", "s", restores.cpu_seconds),
        ],
        [
            Ratio(
                "from snapshot / cold boot",
                median(restores.seconds) / median(boots.seconds),
                "at most 1/8 = 0.125",
            )
        ],
        [f"{machine.info.kind}, {machine.info.accel}: {machine.info.reason}"],
    )


def _boot(machine: QemuMachine, meter: Meter) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="crashsim-bench-") as directory,
        ExitStack() as stack,
        meter.measure(),
    ):
        guest = stack.enter_context(machine.boot(Path(directory) / "memory"))
        guest.wait_for_agent(BOOT_SECONDS)
        guest.run(["true"])


def _restore(machine: QemuMachine, meter: Meter) -> None:
    with ExitStack() as stack, meter.measure():
        stack.enter_context(machine.start()).run(["true"])
