"""How much sooner a guest from the boot snapshot answers than one that boots."""

import tempfile
import time
from pathlib import Path

from crashsim.campaigns.benchmark import Benchmark, Ratio, figure
from crashsim.campaigns.options import Progress
from crashsim.machines.qemu import BOOT_SECONDS, QemuMachine


def bench_machine(rounds: int, progress: Progress) -> Benchmark:
    """Boot and restore in turn, each up to the first command's answer.

    Raises InfrastructureError where no guest comes up.
    """
    machine = QemuMachine()
    with machine.start():
        pass  # makes the snapshot, which is not what is measured
    boots: list[float] = []
    restores: list[float] = []
    for done in range(rounds):
        progress("boot and restore", done, rounds)
        boots.append(_boot(machine))
        restores.append(_restore(machine))
    cold, restored = figure("cold boot", "s", boots), figure("from snapshot", "s", restores)
    return Benchmark(
        "machine",
        [cold, restored],
        [Ratio("from snapshot / cold boot", restored.median / cold.median, "at most 1/8 = 0.125")],
        [f"{machine.info.kind}, {machine.info.accel}: {machine.info.reason}"],
    )


def _boot(machine: QemuMachine) -> float:
    with tempfile.TemporaryDirectory(prefix="crashsim-bench-") as directory:
        started = time.perf_counter()
        with machine.boot(Path(directory) / "memory") as guest:
            guest.wait_for_agent(BOOT_SECONDS)
            guest.run(["true"])
            return time.perf_counter() - started


def _restore(machine: QemuMachine) -> float:
    started = time.perf_counter()
    with machine.start() as guest:
        guest.run(["true"])
        return time.perf_counter() - started
