"""The Python files of a fsync method that is not the store's own, to be brought into a guest."""

import importlib.util
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from crashsim.errors import UsageError


class MethodNotFound(UsageError):
    """A fsync method's module cannot be found, or is not a Python file."""


def look_in_working_directory() -> None:
    """Have modules found that lie where crashsim was called, as `python -m` does."""
    here = os.getcwd()
    if here not in sys.path:
        sys.path.append(here)


def method_files(location: str) -> Mapping[str, bytes]:
    """The files that a method needs: path below a directory of PYTHONPATH -> content.

    :param location: MODULE:CLASS. A module in no package comes alone; one in a package comes with
        all Python files of that package. What else it imports has to be in the guest already: the
        store and the standard library are.

    Raises MethodNotFound. The packages above the module are imported.
    """
    name = location.partition(":")[0]
    look_in_working_directory()
    try:
        found = importlib.util.find_spec(name)
    except (ImportError, ValueError) as error:
        raise MethodNotFound(f"no fsync method at {location}: {error}") from error
    if found is None or found.origin is None or not found.origin.endswith(".py"):
        raise MethodNotFound(f"no fsync method at {location}: {name} is no Python file")
    file = Path(found.origin)
    is_package = found.submodule_search_locations is not None
    depth = name.count(".") + is_package
    root = file.parents[depth]
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in _files(file, depth)}


def _files(file: Path, depth: int) -> Iterable[Path]:
    """A module's file and, of a module `depth` packages deep, its package and what is above it."""
    if depth == 0:
        return [file]
    above = (directory / "__init__.py" for directory in file.parents[1:depth])
    return [*(path for path in above if path.exists()), *sorted(file.parent.rglob("*.py"))]
