"""The reference store as a workload: the git workload's steps, run by `refgit` in place of `git`.

The store is brought into the guest as its Python package; nothing of it is imported here. The
repository that it works in is made by real git, as for the git workload.
"""

import importlib.metadata
import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from crashsim.errors import UsageError
from crashsim.workloads.git import STAGE, GitWorkload, git_workload
from crashsim.workloads.git_options import GitOptions
from crashsim.workloads.protocol import Step
from crashsim.workloads.staging import PAYLOAD_ENVIRONMENT

METHODS_GROUP = "crashsim.fsync_methods"
"""The entry point group of fsync methods (DESIGN section 5)."""

_PACKAGE = "impl"
_STORE = "store"
_SITE = f"{STAGE}/{_STORE}"
_PRELUDE = f'git() {{ python3 -m {_PACKAGE} "$@"; }}; '


class StoreNotInstalled(UsageError):
    """The reference store is not importable here."""


def method_names() -> tuple[str, ...]:
    """The fsync methods that are installed, by name."""
    return tuple(
        sorted(entry.name for entry in importlib.metadata.entry_points(group=METHODS_GROUP))
    )


def impl_workload(
    sequence: str = "default", *, options: GitOptions | None = None, files: int = 8, seed: int = 0
) -> GitWorkload:
    """The steps of a sequence, run by the reference store. The arguments are `git_workload`'s.

    Raises UnknownSequence, StoreNotInstalled.
    """
    workload = git_workload(sequence, options=options, files=files, seed=seed)
    return replace(
        workload,
        name=_PACKAGE,
        steps=[_run_by_the_store(step) for step in workload.steps],
        environment={**workload.environment, **PAYLOAD_ENVIRONMENT, "PYTHONPATH": _SITE},
        program=_package(),
    )


def _run_by_the_store(step: Step) -> Step:
    *shell, script = step.argv
    return replace(step, argv=(*shell, _PRELUDE + script))


def _package() -> Mapping[str, bytes]:
    """The store's files and its metadata, which tells its methods, below `_STORE`."""
    found = importlib.util.find_spec(_PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise StoreNotInstalled(
            "the reference store is not installed: install crashsim with pip, from its repository"
        )
    root = Path(found.submodule_search_locations[0])
    return {
        **{
            f"{_STORE}/{_PACKAGE}/{path.relative_to(root)}": path.read_bytes()
            for path in root.rglob("*.py")
        },
        **_metadata(importlib.metadata.entry_points(group=METHODS_GROUP)),
    }


def _metadata(methods: Sequence[importlib.metadata.EntryPoint]) -> Mapping[str, bytes]:
    lines = [f"[{METHODS_GROUP}]", *(f"{entry.name} = {entry.value}" for entry in methods), ""]
    directory = f"{_STORE}/{_PACKAGE}-0.dist-info"
    return {
        f"{directory}/METADATA": f"Metadata-Version: 2.1\nName: {_PACKAGE}\nVersion: 0\n".encode(),
        f"{directory}/entry_points.txt": "\n".join(lines).encode(),
    }
