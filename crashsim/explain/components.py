"""Which of git's `core.fsync` components, if any, syncs a file of a repository.

Components and their files: git's documentation of core.fsync and core.fsyncMethod, and what git
does (reftable's tables and list are `reference`; symbolic refs, reflogs and config have none).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Component:
    """What git calls a kind of file, and how it is made to sync it.

    :ivar name: git's word: `loose-object`; empty where no setting syncs such files.
    :ivar kind: what the file is, in words, with an article.
    :ivar also: the other values of core.fsync that include `name`, narrowest first.
    """

    name: str
    kind: str
    also: tuple[str, ...] = ()

    def advice(self) -> str:
        """What to set, as the end of a sentence."""
        if not self.name:
            return f"no setting of git syncs {self.kind}"
        others = ", ".join(f"`{value}`" for value in self.also)
        return (
            f"`core.fsync={self.name}` (or {others}) with `core.fsyncMethod=fsync` adds that call"
        )


_OBJECTS = ("objects", "committed", "added", "all")
_RULES: Sequence[tuple[str, Component]] = tuple(
    (pattern, Component(name, kind, also))
    for pattern, name, kind, also in (
        (
            r"(.*/)?objects/([0-9a-f]{2}|tmp_objdir-[^/]+/[0-9a-f]{2})/[^/]+",
            *("loose-object", "a loose object", _OBJECTS),
        ),
        (r"(.*/)?objects/pack/[^/]*pack[^/]*\.pack", "pack", "a pack", _OBJECTS),
        (r"(.*/)?objects/pack/[^/]*\.(keep|promisor)", "", "a pack's .keep or .promisor file", ()),
        (
            r"(.*/)?objects/pack/multi-pack-index\.d/multi-pack-index-chain",
            *("", "the multi-pack-index chain", ()),
        ),
        (
            r"(.*/)?objects/pack/.*(\.(idx|rev|mtimes|bitmap|midx)|multi-pack-index)",
            *("pack-metadata", "a pack's index", ("derived-metadata", "all")),
        ),
        (r"(.*/)?objects/info/commit-graphs/commit-graph-chain", "", "the commit-graph chain", ()),
        (
            r"(.*/)?objects/info/(commit-graph|commit-graphs/graph-[^/]*\.graph)",
            *("commit-graph", "the commit-graph", ("derived-metadata", "all")),
        ),
        (
            r"(.*/)?(index|sharedindex\.[^/]*|index\.stash\.[^/]*)",
            *("index", "the index", ("added", "all")),
        ),
        (r"(.*/)?logs/.*", "", "reflogs", ()),
        (
            r"(.*/)?(refs/.*|packed-refs|ORIG_HEAD|reftable/.*)",
            *("reference", "a ref", ("committed", "added", "all")),
        ),
        (r"(.*/)?config(\.worktree)?", "", "a repository's config", ()),
        (
            r"(.*/)?(shallow|[A-Z_]+_(HEAD|MSG|EDITMSG)|[A-Z]+_MODE|AUTO_MERGE|objects/info/.*)",
            *("", "such a state file", ()),
        ),
    )
)
_SYMBOLIC_HEAD = Component("", "a symbolic ref (the switch of HEAD to another branch)")
_DETACHED_HEAD = Component("reference", "a detached HEAD", ("committed", "added", "all"))
_WORKING_TREE = Component("", "files of the working tree")


def git_component(path: str, git_directory: str, content: bytes | None = None) -> Component | None:
    """The component of a file; None where `path` is in no repository.

    :param path: relative to the filesystem's root.
    :param git_directory: the repository (`repo/.git`, `remote.git`), relative likewise.
    :param content: what the file should hold; tells a symbolic HEAD from a detached one.
    """
    prefix = git_directory.rstrip("/") + "/"
    if not path.startswith(prefix):
        inside = prefix.endswith("/.git/") and path.startswith(prefix.removesuffix(".git/"))
        return _WORKING_TREE if inside else None
    inner = path.removeprefix(prefix).removesuffix(".lock")
    if inner == "HEAD" or re.fullmatch(r"worktrees/[^/]+/HEAD", inner):
        detached = content is not None and not content.startswith(b"ref:")
        return _DETACHED_HEAD if detached else _SYMBOLIC_HEAD
    for pattern, component in _RULES:
        if re.fullmatch(pattern, inner):
            return component
    return None
