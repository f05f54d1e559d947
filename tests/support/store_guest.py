"""A guest that has the reference store beside its own git, to run shell scripts over both."""

import io
import os
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from crashsim.machines.protocol import Guest
from crashsim.machines.qemu import QemuMachine

IMPL = Path(__file__).parents[2] / "impl"
SITE = "/opt/impl"
REPOSITORY = "/tmp/repo"
PREAMBLE = f"""
export HOME=/nonexistent GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@example.org PYTHONPATH={SITE}
export GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@example.org
export GIT_AUTHOR_DATE="1700000000 +0130" GIT_COMMITTER_DATE="1700000000 +0130"
fail() {{ echo "$*" >&2; exit 1; }}
cd {REPOSITORY}
"""
EMPTY = f"cd /; rm -rf {REPOSITORY}; mkdir {REPOSITORY}; cd {REPOSITORY}\n"


@contextmanager
def store_guest() -> Iterator[Guest]:
    """Start one, with an empty directory for the repository."""
    with QemuMachine().start() as guest:
        guest.run(["mkdir", "-p", SITE, REPOSITORY])
        guest.write_file("/opt/impl.tar", _archive())
        done = guest.run(["tar", "-C", SITE, "-xf", "/opt/impl.tar"])
        assert done.returncode == 0, done.stderr
        yield guest


def run_script(guest: Guest, script: str, *arguments: str) -> str:
    """Run a shell script there, whose words are `arguments`; what it printed."""
    argv = ["/bin/sh", "-ec", PREAMBLE + script, "sh", *arguments]
    result = guest.run(argv, timeout_seconds=800)
    assert result.returncode == 0, os.fsdecode(result.stdout + result.stderr)
    return os.fsdecode(result.stdout)


def _archive() -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        tar.add(
            IMPL,
            "impl",
            filter=lambda member: None if "__pycache__" in member.name else member,
        )
    return content.getvalue()
