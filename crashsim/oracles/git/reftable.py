"""The reftable backend: the stack of tables that tables.list names."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from crashsim.machines.tree import Tree
from crashsim.oracles.git.cache import ContentCache
from crashsim.oracles.git.damage import Damage
from crashsim.oracles.git.layout import Layout, read_file
from crashsim.oracles.git.reflog import Reflog, ReflogEntry, make_reflog
from crashsim.oracles.git.reftable_table import Reftable, parse_reftable
from crashsim.oracles.git.rules import violation
from crashsim.oracles.protocol import Violation

_LIST = "reftable/tables.list"
_NAME = re.compile(rb"[^/\0]+\.ref")


@dataclass(frozen=True)
class ReftableStack:
    """What the tables say together; nothing when they cannot be read."""

    refs: Mapping[str, str]
    reflogs: Mapping[str, Reflog]
    violations: tuple[Violation, ...]


def load_stack(tree: Tree, layout: Layout, cache: ContentCache) -> ReftableStack:
    """Read tables.list and its tables, the newest of which wins."""
    path = layout.top.get(_LIST)
    subject = f"{layout.git_dir}/{_LIST}"
    if path is None:
        return _nothing(violation("reftable-list-empty", subject, f"{subject} is not there"))
    _, content = read_file(tree, path)
    if content is None:
        return _nothing(violation("reftable-unreadable", path, f"{path} cannot be read"))
    if not content.strip(b"\n"):
        return _nothing(violation("reftable-list-empty", path, f"{path} is empty"))
    names = content.split(b"\n")
    if names[-1]:
        detail = f"{path} ends within a line"
        if not content.strip(b"\0"):
            detail = f"{path} holds {len(content)} NUL bytes"
        return _nothing(violation("reftable-unreadable", path, detail))
    tables = []
    for name in names[:-1]:
        if not _NAME.fullmatch(name):
            return _nothing(violation("reftable-unreadable", path, f"{path} lists {name!r}"))
        table = _load_table(tree, layout, name.decode("utf-8", "surrogateescape"), cache)
        if isinstance(table, Violation):
            return _nothing(table)
        tables.append(table)
    return _merge(tables)


def _nothing(found: Violation) -> ReftableStack:
    return ReftableStack({}, {}, (found,))


def _load_table(tree: Tree, layout: Layout, name: str, cache: ContentCache) -> Reftable | Violation:
    path = layout.top.get(f"reftable/{name}")
    if path is None:
        subject = f"{layout.git_dir}/reftable/{name}"
        return violation("reftable-unreadable", subject, f"{_LIST} lists it, and it is missing")
    digest, content = read_file(tree, path)
    if content is None:
        return violation("reftable-unreadable", path, f"{path} cannot be read")
    table = cache.get(("reftable", digest), lambda: parse_reftable(content))
    if isinstance(table, Damage):
        return violation("reftable-unreadable", path, f"{path} {table.reason}")
    return table


def _merge(tables: list[Reftable]) -> ReftableStack:
    refs: dict[str, str] = {}
    logs: dict[str, dict[int, ReflogEntry]] = {}
    for table in tables:
        for record in table.refs:
            if record.value is None:
                refs.pop(record.name, None)
            else:
                refs[record.name] = record.value
        for log in table.logs:
            entries = logs.setdefault(log.name, {})
            if log.entry is None:
                entries.pop(log.update_index, None)
            else:
                entries[log.update_index] = log.entry
    reflogs = {
        name: make_reflog([entries[at] for at in sorted(entries) if not _is_marker(entries[at])])
        for name, entries in logs.items()
        if entries
    }
    return ReftableStack(refs, reflogs, ())


def _is_marker(entry: ReflogEntry) -> bool:
    """git notes that an empty reflog exists by an entry from the null object to itself."""
    return not (entry.old + entry.new).strip("0")
