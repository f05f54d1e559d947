"""Everything in a repository that names objects."""

from collections.abc import Iterator

from crashsim.oracles.git.objects import ObjectKind
from crashsim.oracles.git.reachability import Root
from crashsim.oracles.git.ref_backends import RefState
from crashsim.oracles.git.refs import SYMBOLIC
from crashsim.oracles.git.repository import Repository
from crashsim.oracles.git.snapshot import STASH

_SUBMODULE_MODE = 0o160000
_TREE_MODE = 0o40000


def roots(repository: Repository) -> Iterator[Root]:
    """All roots, the most important first: a broken object is reported for the first one."""
    yield from _ref_roots(repository.refs)
    yield from _stash_roots(repository.refs)
    yield from _index_roots(repository)
    yield from _reflog_roots(repository.refs)
    for oid in repository.index.cached_trees if repository.index is not None else ():
        yield Root("cache-tree", "a cached tree of the index", oid, ObjectKind.TREE)


def _ref_roots(refs: RefState) -> Iterator[Root]:
    if refs.head is not None and not refs.head.startswith(SYMBOLIC):
        yield Root("ref", "HEAD", bytes.fromhex(refs.head), ObjectKind.COMMIT)
    for name, value in refs.refs.items():
        if not value.startswith(SYMBOLIC):
            kind = ObjectKind.COMMIT if name.startswith("refs/heads/") else None
            yield Root("ref", name, bytes.fromhex(value), kind)


def _stash_roots(refs: RefState) -> Iterator[Root]:
    log = refs.reflogs.get(STASH)
    for entry in log.entries if log is not None else ():
        if entry.new.strip("0"):
            yield Root("stash", f"stash entry {entry.message!r}", bytes.fromhex(entry.new))


def _index_roots(repository: Repository) -> Iterator[Root]:
    for entry in repository.index.entries if repository.index is not None else ():
        if entry.mode != _SUBMODULE_MODE:
            kind = ObjectKind.TREE if entry.mode == _TREE_MODE else ObjectKind.BLOB
            path = entry.path.decode("utf-8", "replace")
            yield Root("index", f"index entry {path}", entry.oid, kind)


def _reflog_roots(refs: RefState) -> Iterator[Root]:
    for name, reflog in refs.reflogs.items():
        for entry in reflog.entries:
            for oid in (entry.new, entry.old):
                if oid.strip("0"):
                    yield Root("reflog", f"the reflog of {name}", bytes.fromhex(oid))
