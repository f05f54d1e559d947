"""This package, and what it needs of the rest, as files for a machine that has Python alone."""

from pathlib import Path

from crashsim.faults.dm import staging as dm_staging

_ROOT = Path(__file__).parents[3]
_NEEDED = (
    "crashsim/machines/__init__.py",
    "crashsim/machines/agent/*.py",
    "crashsim/machines/vagrant_side/*.py",
)


def guest_files() -> dict[str, bytes]:
    """Relative path -> content: where they are put, that directory goes on PYTHONPATH."""
    paths = [path for pattern in _NEEDED for path in sorted(_ROOT.glob(pattern))]
    ours = {path.relative_to(_ROOT).as_posix(): path.read_bytes() for path in paths}
    return {**dm_staging.guest_files(), **ours}
