"""Runs the `crashsim` command as its users do, and finds whatever it leaves behind."""

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
VARIABLE = "CRASHSIM_TEST_RUN"


@dataclass
class Command:
    """One `crashsim` process, marked so that everything that it starts can be found."""

    arguments: Sequence[str]
    directory: Path
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    process: subprocess.Popen[str] = field(init=False)

    def start(self) -> "Command":
        """Start it, in a process group of its own."""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "crashsim.cli", *self.arguments],
            cwd=self.directory,
            env={**os.environ, VARIABLE: self.mark, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        return self

    def finish(self, timeout_seconds: float = 280.0) -> subprocess.CompletedProcess[str]:
        """Wait for its end."""
        try:
            stdout, stderr = self.process.communicate(timeout=timeout_seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            stdout, stderr = self.process.communicate()
            raise AssertionError(f"{self.arguments} did not end: {stdout}{stderr}") from None
        return subprocess.CompletedProcess(
            list(self.arguments), self.process.returncode, stdout, stderr
        )

    def others(self) -> dict[int, str]:
        """Process id -> program, of all living processes that it or its children started."""
        found = {}
        wanted = f"{VARIABLE}={self.mark}".encode()
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == self.process.pid:
                continue
            try:
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    found[int(entry.name)] = (entry / "comm").read_text().strip()
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue  # it ended meanwhile, or is somebody else's
        return found

    def wait_until(self, true: Callable[[], bool], timeout_seconds: float = 240.0) -> None:
        """Wait for something that the process does; fails when it ends without."""
        deadline = time.monotonic() + timeout_seconds
        while not true():
            if self.process.poll() is not None and not true():
                raise AssertionError(f"it ended before: {self.finish().stderr}")
            assert time.monotonic() < deadline, "it never happened"
            time.sleep(0.02)


def crashsim(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command in `directory` to its end; nothing that it started may live on."""
    command = Command(arguments, directory).start()
    finished = command.finish()
    assert command.others() == {}
    return finished


def read_json(path: Path) -> Any:
    """A result file."""
    return json.loads(path.read_bytes())
