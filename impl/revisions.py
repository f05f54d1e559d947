"""What users call objects: `HEAD`, `main~2`, `stash@{1}`, `v1^{tree}`, `HEAD:path`, abbreviations.

Source: gitrevisions(7); the forms that this store's commands need.
"""

import re
from typing import TYPE_CHECKING

from impl.errors import InvalidName
from impl.objects.model import parse_tag
from impl.refs.names import is_root, is_well_formed
from impl.refs.store import resolve

if TYPE_CHECKING:
    from impl.repository import Repository

_SUFFIX = re.compile(r"(?P<base>.*?)(?P<suffix>(?:\^\{[a-z]*\}|[\^~]\d*)*)", re.DOTALL)
_STEP = re.compile(r"\^\{([a-z]*)\}|([\^~])(\d*)")
_REFLOG_ENTRY = re.compile(r"(?P<name>.*)@\{(?P<number>\d+)\}")
_PREFIXES = ("", "refs/", "refs/tags/", "refs/heads/", "refs/remotes/")


def reference_names(name: str) -> list[str]:
    """The references that a short name may stand for, in the order in which git looks."""
    full = [prefix + name for prefix in _PREFIXES] + [f"refs/remotes/{name}/HEAD"]
    return [
        candidate
        for candidate in full
        if is_root(candidate) or (candidate.startswith("refs/") and is_well_formed(candidate))
    ]


def find_object(repository: "Repository", revision: str) -> str:
    """The name of the object that a revision stands for. Raises InvalidName if there is none."""
    before, colon, path = revision.partition(":")
    if colon and before:
        return _find_in_tree(repository, find_of_type(repository, before, "tree"), path)
    match = _SUFFIX.fullmatch(revision)
    assert match is not None  # It matches every text.
    name = _find_base(repository, match["base"] or "HEAD", revision)
    for kind, step, digits in _STEP.findall(match["suffix"]):
        if not step:
            name = peel(repository, name, kind)
        elif step == "~":
            for _ in range(int(digits or "1")):
                name = _parent(repository, name, 1, revision)
        else:
            name = _parent(repository, name, int(digits or "1"), revision)
    return name


def find_of_type(repository: "Repository", revision: str, type_name: str) -> str:
    """The same, with tags followed, and commits to their trees, to reach a type."""
    return peel(repository, find_object(repository, revision), type_name)


def _find_base(repository: "Repository", name: str, revision: str) -> str:
    if repository.algorithm.is_name(name):
        return name
    if name == "@":
        name = "HEAD"
    if (entry := _REFLOG_ENTRY.fullmatch(name)) is not None:
        return _find_in_reflog(repository, entry["name"] or "HEAD", int(entry["number"]))
    for candidate in reference_names(name):
        found = resolve(repository.references, candidate).object_name
        if found is not None:
            return found
    if len(name) >= 4 and not name.strip("0123456789abcdef"):
        return repository.objects.find(name)
    raise InvalidName(
        f"ambiguous argument '{revision}': unknown revision or path not in the working tree."
    )


def _find_in_reflog(repository: "Repository", name: str, number: int) -> str:
    for candidate in reference_names(name):
        if repository.references.has_reflog(candidate):
            entries = repository.references.reflog(candidate)
            if number >= len(entries):
                raise InvalidName(f"log for '{name}' only has {len(entries)} entries")
            return entries[-1 - number].new
    raise InvalidName(f"'{name}' has no reflog")


def _parent(repository: "Repository", name: str, number: int, revision: str) -> str:
    commit_name = peel(repository, name, "commit")
    if number == 0:
        return commit_name
    parents = repository.objects.commit(commit_name).parents
    if number > len(parents):
        raise InvalidName(f"'{revision}' names no commit: {commit_name} has {len(parents)} parents")
    return parents[number - 1]


def peel(repository: "Repository", name: str, type_name: str) -> str:
    """Follow tags, and from a commit go to its tree, until an object of the type is reached.

    An empty type follows tags only. Raises InvalidName if the type cannot be reached.
    """
    while True:
        found, content = repository.objects.read(name)
        if found == type_name or (not type_name and found != "tag") or type_name == "object":
            return name
        if found == "tag":
            name = parse_tag(content, name, repository.algorithm).object_name
        elif found == "commit" and type_name == "tree":
            return repository.objects.commit(name).tree
        else:
            raise InvalidName(f"{name} is a {found}, and leads to no {type_name}")


def _find_in_tree(repository: "Repository", tree: str, path: str) -> str:
    name = tree
    for part in path.strip("/").split("/"):
        if not part:
            continue
        wanted = part.encode("utf-8", "surrogateescape")
        for entry in repository.objects.tree(name):
            if entry.name == wanted:
                name = entry.object_name
                break
        else:
            raise InvalidName(f"path '{path}' does not exist in '{tree}'")
    return name
