"""Finding fsync methods: installed ones by name, others as MODULE:CLASS."""

import importlib
import importlib.metadata
from collections.abc import Mapping
from dataclasses import dataclass

from crashsim.errors import UsageError
from crashsim.oracles.protocol import Property
from crashsim.workloads.impl import METHODS_GROUP, method_names
from crashsim.workloads.method_files import look_in_working_directory


class UnknownMethod(UsageError):
    """No fsync method of that name is installed, or there is none at that place."""


@dataclass(frozen=True)
class Method:
    """A fsync method of the reference store.

    :ivar setting: the value of core.fsyncMethod that chooses it.
    :ivar claims: filesystem -> the properties that it says hold there.
    :ivar covers_state: whether the claims are about HEAD's own file, too, which git never syncs.
    """

    name: str
    setting: str
    claims: Mapping[str, frozenset[Property]]
    covers_state: bool = False


def find_method(name: str) -> Method:
    """A method by its installed name, or at MODULE:CLASS. Its module is imported.

    Raises UnknownMethod.
    """
    if ":" in name:
        return _method(name, name, name)
    for entry in importlib.metadata.entry_points(group=METHODS_GROUP, name=name):
        return _method(name, name, entry.value)
    known = ", ".join(method_names()) or "none"
    raise UnknownMethod(
        f"no fsync method is called {name!r}: installed are {known}; or MODULE:CLASS"
    )


def _method(name: str, setting: str, location: str) -> Method:
    module_name, _, class_name = location.partition(":")
    look_in_working_directory()
    try:
        found = getattr(importlib.import_module(module_name), class_name)
        guarantee = found.guarantee
        claims = {
            filesystem: frozenset(Property(each) for each in properties)
            for filesystem, properties in guarantee.items()
        }
        return Method(
            str(found.name) if name == location else name,
            setting,
            claims,
            covers_state=bool(getattr(found, "covers_state", False)),
        )
    except (ImportError, AttributeError, ValueError) as error:
        raise UnknownMethod(
            f"{location} is no fsync method ({error}): a method is a class with a name and a "
            "guarantee; see docs/write-a-method.md"
        ) from error
