"""Walks from everything that names objects, and finds what is not whole."""

from collections.abc import Iterable
from dataclasses import dataclass

from crashsim.oracles.git.damage import Damage
from crashsim.oracles.git.objects import Link, ObjectKind
from crashsim.oracles.git.rules import violation
from crashsim.oracles.git.store import ObjectStore
from crashsim.oracles.protocol import Violation

REPORT_LIMIT = 20
"""Broken objects reported for one rule: one crash can lose thousands, all for one reason."""


@dataclass(frozen=True, slots=True)
class Root:
    """Something that names an object.

    :ivar source: the first word of its rules: `ref`, `stash`, `index`, `reflog` or `cache-tree`.
    :ivar label: for messages: `refs/heads/main`, `index entry src/a.c`.
    :ivar oid: raw name of the object.
    :ivar kind: what the object must be; None where anything goes.
    """

    source: str
    label: str
    oid: bytes
    kind: ObjectKind | None = None


def check_reachable(
    roots: Iterable[Root], store: ObjectStore, shallow: frozenset[bytes]
) -> list[Violation]:
    """Every broken object that a root reaches, reported once, for the first root that reaches it.

    :param shallow: raw names of commits whose parents are left out on purpose.
    """
    found: list[Violation] = []
    reported: dict[str, int] = {}
    visited: set[bytes] = set()
    for root in roots:
        stack = [(root.oid, root.kind)]
        while stack:
            oid, kind = stack.pop()
            if oid in visited:
                continue
            visited.add(oid)
            at = store.find(oid)
            if isinstance(at, Damage):
                rule = f"{root.source}-object-{at.kind}"
                reported[rule] = reported.get(rule, 0) + 1
                if reported[rule] <= REPORT_LIMIT:
                    found.append(_broken(rule, root, oid, kind, at, store))
                continue
            if root.source == "ref" and kind is ObjectKind.COMMIT and at.kind is not kind:
                detail = f"{root.label} names the {at.kind} {oid.hex()}, not a commit"
                found.append(violation("ref-wrong-type", root.label, detail))
            stack.extend(_follow(at.links, oid in shallow))
    return found


def _follow(links: tuple[Link, ...], is_shallow: bool) -> list[tuple[bytes, ObjectKind | None]]:
    if is_shallow:
        links = links[:1]
    return [(link.target, link.kind) for link in links]


def _broken(
    rule: str, root: Root, oid: bytes, kind: ObjectKind | None, at: Damage, store: ObjectStore
) -> Violation:
    what = f"{kind or 'object'} {oid.hex()}"
    return violation(rule, store.where(oid), f"{what}, reached from {root.label}, {at.reason}")
