"""The targets that crashsim has workloads for, by name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from crashsim.errors import UsageError
from crashsim.workloads.git import git_workload
from crashsim.workloads.git_options import DEFAULT, GitOptions
from crashsim.workloads.impl import impl_workload, is_location, method_names
from crashsim.workloads.protocol import Workload


class UnknownTarget(UsageError):
    """There is no workload of that name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetOptions:
    """What the command line may say about a target; each target checks what it takes.

    :ivar sequence: which steps, in the target's own words; `default` for its default.
    :ivar files: how many files a step writes.
    """

    fsync: str = DEFAULT
    method: str = DEFAULT
    sequence: str = "default"
    files: int = 8
    ref_format: str = "files"
    object_format: str = "sha1"
    seed: int = 0


def _git(options: TargetOptions) -> Workload:
    return git_workload(
        options.sequence,
        options=GitOptions(
            options.fsync, options.method, options.ref_format, options.object_format
        ),
        files=options.files,
        seed=options.seed,
    )


def _known_methods(method: str) -> tuple[str, ...]:
    """Of the store: the installed ones, and MODULE:CLASS."""
    return (*method_names(), method) if is_location(method) else method_names()


def _impl(options: TargetOptions) -> Workload:
    return impl_workload(
        options.sequence,
        options=GitOptions(
            options.fsync,
            options.method,
            options.ref_format,
            options.object_format,
            known_methods=_known_methods(options.method),
        ),
        files=options.files,
        seed=options.seed,
    )


TARGETS: Mapping[str, Callable[[TargetOptions], Workload]] = MappingProxyType(
    {"git": _git, "impl": _impl}
)


def make_target(name: str, options: TargetOptions) -> Workload:
    """The workload of a target. Raises UnknownTarget, and the target's own UsageErrors."""
    if name not in TARGETS:
        raise UnknownTarget(f"unknown target {name!r}: crashsim has {', '.join(TARGETS)}")
    return TARGETS[name](options)
