"""Waiting for locks, as long as git does.

A lock is a file that exists. It says that another process may be changing what it locks; it does
not say which, or whether that one is still alive. So a lock is never broken here: after a short
wait the command fails, names the file, and leaves it to the user to remove it once no other process
runs.
"""

import time
from collections.abc import Callable
from typing import TypeVar

from impl.errors import LockHeld

REFERENCE_SECONDS = 0.1
"""For a reference's lock: the default of git's core.filesRefLockTimeout."""
PACKED_SECONDS = 1.0
"""For `packed-refs`: core.packedRefsTimeout."""
TABLES_SECONDS = 0.1
"""For a reftable stack: reftable.lockTimeout."""

Result = TypeVar("Result")


def patiently(take: Callable[[], Result], seconds: float) -> Result:
    """What `take` returns, called again while it raises LockHeld, until `seconds` have passed."""
    deadline = time.monotonic() + seconds
    pause = 0.001
    while True:
        try:
            return take()
        except LockHeld:
            if time.monotonic() >= deadline:
                raise
        import random  # A costly import, of use only here.

        time.sleep(pause * random.uniform(0.5, 1.5))
        pause = min(pause * 2, 0.05)
