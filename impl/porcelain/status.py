"""`status [-s | --porcelain] [-b] [-u{no,normal,all}] [-z]`: always in the short format."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from impl.context import Context
from impl.errors import UsageError
from impl.index import Index, read_index
from impl.options import parse_options
from impl.paths import quoted
from impl.refs.store import resolve
from impl.trees import tree_files
from impl.worktree import WorkTree

if TYPE_CHECKING:
    from impl.objects.model import TreeEntry

_USAGE = "usage: refgit status [-s | --porcelain] [-b] [-u no|normal|all] [-z]"
_CONFLICTS = {1: "DD", 2: "AU", 3: "UD", 4: "UA", 5: "DU", 6: "AA", 7: "UU"}
"""Which stages are there (1 + 2 + 4), by what git calls it."""


def run(context: Context, arguments: list[str]) -> int:
    """Print what differs between HEAD, the index and the files. Nothing is written."""
    options = parse_options(
        arguments, _USAGE, flags="short|s porcelain branch|b z", values="untracked-files|u"
    )
    shown = options.value("untracked-files") or "normal"
    if options.rest or shown not in ("no", "normal", "all"):
        raise UsageError(_USAGE)
    repository = context.repository
    head = resolve(repository.references, "HEAD")
    tree = repository.objects.empty_tree
    if head.object_name is not None:
        tree = repository.objects.commit(head.object_name).tree
    index = read_index(repository)
    work_tree = WorkTree(repository)
    if "branch" in options.flags:
        context.print(f"## {head.name.removeprefix('refs/heads/')}")
    lines = _tracked(index, tree_files(repository, tree), work_tree)
    if shown != "no":
        untracked = work_tree.untracked(index)
        if shown == "normal":
            untracked = iter(sorted({_topmost(index, path) for path in untracked}))
        lines += [("??", path) for path in untracked]
    end = b"\0" if "z" in options.flags else b"\n"
    for code, path in lines:
        name = path if "z" in options.flags else quoted(path).encode()
        context.output.write(code.encode() + b" " + name + end)
    return 0


def _topmost(index: Index, path: bytes) -> bytes:
    """The path, or the first directory above it in which nothing is tracked, with a slash."""
    end = path.find(b"/")
    while end >= 0:
        if not index.is_directory(path[:end]):
            return path[: end + 1]
        end = path.find(b"/", end + 1)
    return path


def _tracked(
    index: Index, head: Mapping[bytes, "TreeEntry"], work_tree: WorkTree
) -> list[tuple[str, bytes]]:
    """The two letters and the path of everything that is in HEAD or in the index, and differs."""
    lines: list[tuple[str, bytes]] = []
    for path in sorted(head.keys() | {entry.path for entry in index}):
        entry, before = index.get(path), head.get(path)
        if entry is None and index.has_path(path):
            stages = sum(1 << stage - 1 for stage in (1, 2, 3) if index.get(path, stage))
            lines.append((_CONFLICTS[stages], path))
            continue
        staged, unstaged = " ", " "
        if entry is None:
            staged = "D"
        elif before is None:
            staged = "A"
        elif (entry.mode, entry.object_name) != (before.mode, before.object_name):
            staged = "T" if entry.mode >> 12 != before.mode >> 12 else "M"
        if entry is not None and work_tree.is_modified(entry, index):
            unstaged = "D" if work_tree.lstat(path) is None else "M"
        if (staged, unstaged) != (" ", " "):
            lines.append((staged + unstaged, path))
    return lines
