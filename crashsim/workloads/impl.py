"""The reference store as a workload: the git workload's steps, run by `refgit` in place of `git`.

The store is brought into the guest as its Python package; nothing of it is imported here. The
repository that it works in is made by real git, as for the git workload.
"""

import importlib.metadata
import importlib.util
import io
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from crashsim.errors import UsageError
from crashsim.machines.protocol import Guest
from crashsim.workloads.git import STAGE, GitWorkload, git_workload
from crashsim.workloads.git_options import DEFAULT, GitOptions
from crashsim.workloads.method_files import method_files
from crashsim.workloads.protocol import Step, WorkloadFailed
from crashsim.workloads.staging import PAYLOAD_ENVIRONMENT

METHODS_GROUP = "crashsim.fsync_methods"
"""The entry point group of fsync methods (DESIGN section 5)."""

_PACKAGE = "impl"
_STORE = "store"
_ARCHIVE_BYTES_MAX = 32 << 20
_SITE = f"{STAGE}/{_STORE}"
_RUN = f"python3 -m {_PACKAGE}"


class StoreNotInstalled(UsageError):
    """The reference store is not importable here."""


def method_names() -> tuple[str, ...]:
    """The fsync methods that are installed, by name."""
    return tuple(
        sorted(entry.name for entry in importlib.metadata.entry_points(group=METHODS_GROUP))
    )


def is_location(method: str) -> bool:
    """Whether a value of core.fsyncMethod is MODULE:CLASS and not an installed name."""
    module, _, name = method.partition(":")
    return name.isidentifier() and all(part.isidentifier() for part in module.split("."))


def impl_workload(
    sequence: str = "default", *, options: GitOptions | None = None, files: int = 8, seed: int = 0
) -> GitWorkload:
    """The steps of a sequence, run by the reference store. The arguments are `git_workload`'s.

    Raises UnknownSequence, StoreNotInstalled, MethodNotFound.
    """
    workload = git_workload(sequence, options=options, files=files, seed=seed)
    method = workload.options.method
    return replace(
        workload,
        name=_PACKAGE,
        steps=[run_by_the_store(step, method) for step in workload.steps],
        environment={**workload.environment, **PAYLOAD_ENVIRONMENT, "PYTHONPATH": _SITE},
        program={**store_package(), **_of_others(method)},
    )


def with_bytecode(workload: GitWorkload, guest: Guest) -> GitWorkload:
    """The workload with its program compiled, which takes a guest several seconds, once for all.

    For a workload without a program of its own, the workload itself.
    """
    if not workload.program:
        return workload
    workload.stage(guest)
    result = guest.run(["tar", "-cC", STAGE, _STORE], output_limit_bytes=_ARCHIVE_BYTES_MAX)
    if result.returncode != 0:
        raise WorkloadFailed(workload.name, "compiling the program", result)
    with tarfile.open(fileobj=io.BytesIO(result.stdout)) as archive:
        files = {
            member.name: extracted.read()
            for member in archive
            if (extracted := archive.extractfile(member)) is not None
        }
    return replace(workload, program={**workload.program, **files})


def run_by_the_store(step: Step, method: str = DEFAULT) -> Step:
    """A step of the git workload, its `git` being the store.

    :param method: core.fsyncMethod. The store takes MODULE:CLASS from its command line only.
    """
    *shell, script = step.argv
    setting = f" -c core.fsyncMethod={method}" if is_location(method) else ""
    return replace(step, argv=(*shell, f'git() {{ {_RUN}{setting} "$@"; }}; {script}'))


def _of_others(method: str) -> Mapping[str, bytes]:
    """The files of a method that is not the store's own, below `_STORE`. Raises MethodNotFound."""
    location = method
    for entry in importlib.metadata.entry_points(group=METHODS_GROUP, name=method):
        location = entry.value
    if not is_location(location) or location.startswith(f"{_PACKAGE}."):
        return {}
    return {f"{_STORE}/{path}": content for path, content in method_files(location).items()}


def store_package() -> Mapping[str, bytes]:
    """The store's files and its metadata, which tells its methods, below `store/`.

    Raises StoreNotInstalled.
    """
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
