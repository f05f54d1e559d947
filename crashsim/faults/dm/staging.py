"""This package as files, for a guest that has nothing but Python's standard library."""

from pathlib import Path

_ROOT = Path(__file__).parents[3]
_NEEDED = ("crashsim/errors.py", "crashsim/faults/dm/*.py")
_PACKAGES = ("crashsim/__init__.py", "crashsim/faults/__init__.py")


def guest_files() -> dict[str, bytes]:
    """Relative path -> content: where they are put, that directory goes on PYTHONPATH."""
    paths = [path for pattern in (*_NEEDED, *_PACKAGES) for path in sorted(_ROOT.glob(pattern))]
    return {path.relative_to(_ROOT).as_posix(): path.read_bytes() for path in paths}
