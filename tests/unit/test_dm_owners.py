"""Whose devices are whose, and which processes are on their way out."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from crashsim.faults.dm import owners


def test_a_uuid_tells_its_owner() -> None:
    owner = owners.this_process()

    assert owner.process == os.getpid()
    assert owners.owner_of(f"{owner.prefix}1-2:name") == owner
    assert owners.owner_of("LVM-abcdef") is None
    assert owners.owner_of(f"{owner.prefix}1-2") is None


def test_an_owner_lives_while_its_process_does() -> None:
    with subprocess.Popen(["sleep", "1000"]) as process:
        stat = Path(f"/proc/{process.pid}/stat").read_text()
        start = int(stat.rpartition(")")[2].split()[19])
        owner = owners.Owner(owners.namespace(), process.pid, start)
        assert owner.lives
        assert not owner._replace(start_ticks=start + 1).lives  # another process of that number
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert not owner.lives  # a zombie, which holds nothing any more
    assert not owner.lives


def test_a_process_is_dying_once_it_has_been_killed() -> None:
    with subprocess.Popen(["sleep", "1000"]) as process:
        assert not owners.is_dying(process.pid)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert owners.is_dying(process.pid)
    assert owners.is_dying(process.pid)


def test_other_signals_that_wait_are_not_death() -> None:
    code = "import signal, time; signal.pthread_sigmask(signal.SIG_BLOCK, {15}); print(flush=True)"
    with subprocess.Popen(
        [sys.executable, "-c", f"{code}; time.sleep(1000)"], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        assert not owners.is_dying(process.pid)
        process.kill()
