"""The programs whose times are compared: real git, the reference store, and dulwich.

All three sync everything that they can be told to sync: git and the store by `core.fsync=all`,
dulwich by `core.fsyncObjectFiles`, its only such setting; it syncs references and the index anyway.
"""

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from crashsim.errors import UsageError
from crashsim.workloads.git_options import GitOptions
from crashsim.workloads.impl import method_names, store_package

STAGE = "/run/crashsim-store"
"""In the guest's memory: programs, their configurations, what they work on."""

_DULWICH = "dulwich"
_DRIVER = Path(__file__).with_name("dulwich_store.py")


class DulwichNotInstalled(UsageError):
    """There is no dulwich here to compare with."""


@dataclass(frozen=True, slots=True)
class StoreProgram:
    """A program with its settings.

    :ivar name: `git`, or with a method other than `fsync`: `impl, batch`.
    :ivar command: what a shell runs it by.
    :ivar configuration: the text of git's configuration file.
    :ivar set_up: for `sh -e`, in a fresh repository: what it reads nowhere else.
    :ivar files: what it is made of, where the guest does not have it: path below STAGE -> content.
    """

    name: str
    command: str
    configuration: str
    set_up: str = ""
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    @property
    def home(self) -> str:
        """The home directory that has its configuration, below STAGE."""
        return "home-" + "".join(c if c.isalnum() else "-" for c in self.name)

    @property
    def staged(self) -> Mapping[str, bytes]:
        """Its configuration and itself: path below STAGE -> content."""
        return {f"{self.home}/.gitconfig": self.configuration.encode(), **self.files}

    @property
    def environment(self) -> Mapping[str, str]:
        """Of its commands, and of git's in the same repository."""
        date = "2005-04-07T22:13:13 +0000"
        return {
            "HOME": f"{STAGE}/{self.home}",
            "GIT_CONFIG_GLOBAL": f"{STAGE}/{self.home}/.gitconfig",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_DATE": date,
            "GIT_COMMITTER_DATE": date,
            "LC_ALL": "C",
            "PYTHONPATH": f"{STAGE}/store:{STAGE}/{_DULWICH}",
            "PYTHONDONTWRITEBYTECODE": "",  # as if it were not set: compiled modules are kept
            "STORE": self.command,
        }


def git_program(method: str = "fsync") -> StoreProgram:
    """Real git. Raises BadGitOption for a method that it does not have."""
    options = GitOptions(fsync="all", method=method)
    return StoreProgram(_name("git", method), "git", options.configuration())


def impl_program(method: str = "fsync") -> StoreProgram:
    """The reference store. Raises BadGitOption, StoreNotInstalled."""
    options = GitOptions(fsync="all", method=method, known_methods=method_names())
    return StoreProgram(
        _name("impl", method),
        "python3 -m impl",
        options.configuration(),
        files=store_package(),
    )


def dulwich_program() -> StoreProgram:
    """dulwich as it is installed here, without its compiled parts. Raises DulwichNotInstalled."""
    found = importlib.util.find_spec(_DULWICH)
    if found is None or not found.submodule_search_locations:
        raise DulwichNotInstalled(
            "dulwich is not installed, which this benchmark compares with: pip install dulwich"
        )
    root = Path(found.submodule_search_locations[0])
    modules = {
        f"{_DULWICH}/{_DULWICH}/{path.relative_to(root)}": path.read_bytes()
        for path in root.rglob("*.py")
        if "tests" not in path.relative_to(root).parts
    }
    driver = f"{_DULWICH}/{_DRIVER.name}"
    return StoreProgram(
        _DULWICH,
        f"python3 {STAGE}/{driver}",
        GitOptions().configuration(),
        set_up="git config core.fsyncObjectFiles true",
        files={**modules, driver: _DRIVER.read_bytes()},
    )


def _name(program: str, method: str) -> str:
    return program if method == "fsync" else f"{program}, {method}"
