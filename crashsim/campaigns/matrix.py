"""`crashsim matrix` as a function: one run for each combination, several at a time."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace

from crashsim.campaigns.options import Progress, RunOptions
from crashsim.campaigns.results import RunResult
from crashsim.campaigns.run import RunOutcome, run_campaign
from crashsim.campaigns.targets import Target
from crashsim.machines.filesystems import Filesystem
from crashsim.machines.protocol import Machine


@dataclass(frozen=True, slots=True)
class Cell:
    """One combination."""

    target: Target
    filesystem: Filesystem


def run_matrix(
    cells: Sequence[Cell],
    options: RunOptions,
    machine: Machine,
    progress: Progress,
    finished: Callable[[RunOutcome], RunResult],
) -> list[RunResult]:
    """Run every cell, `options.jobs` of them side by side with one guest each.

    A recording keeps one processor busy and cannot be split, so whole cells are what is worth
    running at the same time.

    :param finished: called for each outcome as its cell ends, from one thread at a time; makes the
        result that is kept of it.

    Returns the results in the order of `cells`. Raises the first failure of any cell.
    """
    done = 0
    lock = threading.Lock()
    progress("matrix", 0, len(cells))

    def run(cell: Cell) -> RunResult:
        nonlocal done
        outcome = run_campaign(
            cell.target, replace(options, filesystem=cell.filesystem, jobs=1), machine=machine
        )
        with lock:
            done += 1
            progress("matrix", done, len(cells))
            return finished(outcome)

    with ThreadPoolExecutor(options.jobs, thread_name_prefix="cell") as pool:
        futures = [pool.submit(run, cell) for cell in cells]
        try:
            wait(futures, return_when=FIRST_EXCEPTION)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
        return [future.result() for future in futures if not future.cancelled()]
