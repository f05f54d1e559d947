"""Traces as strace(1) writes them with `-f -y -ttt`, from short lines."""

from crashsim.explain.lineage import Trace
from crashsim.explain.syscalls import read_trace

ROOT = "/mnt/0"


def traced(*steps: str, existing: tuple[str, ...] = (), step: str = "step") -> Trace:
    """A trace of steps `step-1`, `step-2`, …, each given as its lines.

    :param step: what to call the steps instead of `step`.

    A line is `PROCESS REST`; times are put in, one millisecond apart. The working directory of each
    step is /mnt/0/repo.
    """
    outputs = []
    for number, text in enumerate(steps, 1):
        lines = [line.strip() for line in text.strip().splitlines()]
        outputs.append(
            (
                f"{step}-{number}",
                [
                    f"{line.partition(' ')[0]} 17000000{number:02}.{at:06} {line.partition(' ')[2]}"
                    for at, line in enumerate(lines)
                ],
            )
        )
    directories = {name: f"{ROOT}/repo" for name, _ in outputs}
    return read_trace(outputs, ROOT, directories, existing)
