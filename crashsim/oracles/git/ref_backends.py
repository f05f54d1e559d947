"""Refs, HEAD and reflogs of a repository, whichever backend keeps them."""

from collections.abc import Mapping
from dataclasses import dataclass

from crashsim.machines.tree import Tree
from crashsim.oracles.git.cache import ContentCache
from crashsim.oracles.git.damage import Damage, DamageKind
from crashsim.oracles.git.layout import Layout, read_file
from crashsim.oracles.git.objects import ObjectFormat
from crashsim.oracles.git.reflog import Reflog, parse_reflog
from crashsim.oracles.git.refs import (
    SYMBOLIC,
    PackedRefs,
    is_repository_head,
    parse_packed_refs,
    parse_ref_file,
)
from crashsim.oracles.git.reftable import load_stack
from crashsim.oracles.git.rules import violation
from crashsim.oracles.protocol import Violation

_PSEUDOREFS = ("ORIG_HEAD", "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "REBASE_HEAD")


@dataclass(frozen=True)
class RefState:
    """What the refs say.

    :ivar head: `ref: <name>` or an object name in hexadecimal; None where it cannot be read.
    :ivar head_damage: why git does not take the HEAD *file* for one.
    :ivar refs: name -> value, the same way; broken refs are left out.
    :ivar broken: names of refs that are there and cannot be read.
    :ivar is_readable: False where the whole backend cannot be read.
    """

    head: str | None
    head_damage: Damage | None
    refs: Mapping[str, str]
    broken: frozenset[str]
    reflogs: Mapping[str, Reflog]
    packed: PackedRefs | None
    violations: tuple[Violation, ...]
    is_readable: bool = True

    def resolve(self, name: str) -> str | None:
        """The object that a ref names in the end, in hexadecimal; None for none."""
        for _ in range(6):
            value = self.head if name == "HEAD" else self.refs.get(name)
            if value is None or not value.startswith(SYMBOLIC):
                return value
            name = value.removeprefix(SYMBOLIC)
        return None


def load_refs(
    tree: Tree,
    layout: Layout,
    object_format: ObjectFormat,
    has_reftable: bool,
    cache: ContentCache,
) -> RefState:
    """Read all refs and reflogs."""
    head, head_damage = _head(tree, layout, object_format)
    if not has_reftable:
        return _load_files(tree, layout, object_format, cache, head, head_damage)
    stack = load_stack(tree, layout, cache)
    refs = {name: value for name, value in stack.refs.items() if name.startswith("refs/")}
    return RefState(
        stack.refs.get("HEAD"),
        head_damage,
        refs,
        frozenset(),
        stack.reflogs,
        None,
        stack.violations,
        is_readable=not stack.violations,
    )


def _head(
    tree: Tree, layout: Layout, object_format: ObjectFormat
) -> tuple[str | None, Damage | None]:
    path = layout.top.get("HEAD")
    if path is None:
        return None, Damage(DamageKind.MISSING, "is missing")
    _, content = read_file(tree, path)
    if content is None:
        return None, Damage(DamageKind.CORRUPT, "cannot be read")
    value = parse_ref_file(content, object_format)
    if isinstance(value, Damage):
        return None, value
    if not is_repository_head(content, object_format):
        return None, Damage(DamageKind.CORRUPT, f"points outside refs/: {value!r}")
    return value, None


def _load_files(
    tree: Tree,
    layout: Layout,
    object_format: ObjectFormat,
    cache: ContentCache,
    head: str | None,
    head_damage: Damage | None,
) -> RefState:
    violations: list[Violation] = []
    packed = _packed(tree, layout, object_format, cache, violations)
    refs = dict(packed.refs) if packed is not None else {}
    broken = set()
    for name, path in layout.refs.items():
        value = _loose(tree, path, object_format)
        if isinstance(value, Damage):
            broken.add(name)
            refs.pop(name, None)
            violations.append(violation(f"ref-{value.kind}", path, f"{path} {value.reason}"))
        else:
            refs[name] = value
    for name in _PSEUDOREFS:
        path = layout.top.get(name, "")
        pseudoref = _loose(tree, path, object_format) if path else ""
        if isinstance(pseudoref, Damage):
            violations.append(violation("pseudoref-broken", path, f"{path} {pseudoref.reason}"))
    if "packed-refs.new" in layout.top:
        path = layout.top["packed-refs.new"]
        violations.append(violation("packed-refs-new-left", path, f"{path} is left over"))
    reflogs = {
        name: _reflog(tree, path, object_format, cache, violations)
        for name, path in layout.logs.items()
    }
    return RefState(
        head, head_damage, refs, frozenset(broken), reflogs, packed, tuple(violations),
        is_readable="packed-refs" not in layout.top or packed is not None,
    )  # fmt: skip


def _loose(tree: Tree, path: str, object_format: ObjectFormat) -> str | Damage:
    _, content = read_file(tree, path)
    if content is None:
        return Damage(DamageKind.CORRUPT, "cannot be read")
    return parse_ref_file(content, object_format)


def _packed(
    tree: Tree,
    layout: Layout,
    object_format: ObjectFormat,
    cache: ContentCache,
    violations: list[Violation],
) -> PackedRefs | None:
    path = layout.top.get("packed-refs")
    if path is None:
        return None
    digest, content = read_file(tree, path)
    if content is None:
        violations.append(violation("packed-refs-unreadable", path, f"{path} cannot be read"))
        return None
    packed = cache.get(
        ("packed-refs", object_format.name, digest),
        lambda: parse_packed_refs(content, object_format),
    )
    if isinstance(packed, Damage):
        violations.append(violation("packed-refs-unreadable", path, f"{path} {packed.reason}"))
        return None
    if not content:
        violations.append(violation("packed-refs-empty", path, f"{path} is empty"))
    elif packed.disorder:
        violations.append(violation("packed-refs-corrupt", path, f"{path} {packed.disorder}"))
    return packed


def _reflog(
    tree: Tree,
    path: str,
    object_format: ObjectFormat,
    cache: ContentCache,
    violations: list[Violation],
) -> Reflog:
    digest, content = read_file(tree, path)
    if content is None:
        violations.append(violation("reflog-corrupt", path, f"{path} cannot be read"))
        return parse_reflog(b"", object_format)
    reflog = cache.get(
        ("reflog", object_format.name, digest), lambda: parse_reflog(content, object_format)
    )
    if reflog.bad_lines:
        detail = f"{path} has {reflog.bad_lines} lines that do not parse"
        violations.append(violation("reflog-corrupt", path, detail))
    if reflog.cut_off_bytes:
        detail = f"{path} ends in {reflog.cut_off_bytes} bytes that are no whole line"
        violations.append(violation("reflog-cut-off", path, detail))
    return reflog
