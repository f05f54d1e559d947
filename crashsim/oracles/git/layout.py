"""Which files of a tree belong to which part of a git repository."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from crashsim.errors import InfrastructureError
from crashsim.machines.tree import NodeKind, Tree
from crashsim.oracles.git.objects import ObjectFormat


class ContentNotCollected(InfrastructureError):
    """A file that the check needs was hashed, but its content was not brought back."""


@dataclass(frozen=True)
class Layout:
    """The files of one git directory, sorted by what they are for; all paths from the tree's root.

    :ivar loose: raw object name -> path.
    :ivar packs: name without extension (`pack-1f3a…`) -> extension -> path.
    :ivar object_files: any other file below objects/: path from objects/ -> path.
    :ivar refs: name of a ref (`refs/heads/main`) -> path, lock files left out.
    :ivar logs: name of a ref (`HEAD`) -> path of its reflog.
    :ivar top: files in the git directory itself -> path; `reftable/…` too.
    """

    git_dir: str
    loose: Mapping[bytes, str] = field(default_factory=dict)
    packs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    object_files: Mapping[str, str] = field(default_factory=dict)
    refs: Mapping[str, str] = field(default_factory=dict)
    logs: Mapping[str, str] = field(default_factory=dict)
    top: Mapping[str, str] = field(default_factory=dict)
    directories: frozenset[str] = frozenset()


def read_file(tree: Tree, path: str) -> tuple[str, bytes | None]:
    """A file's (digest, content).

    The content is None when the guest could not read the file: a damaged file, not a missing one.
    Raises ContentNotCollected when the tree holds only its digest.
    """
    node = tree.nodes[path]
    if node.digest.startswith("error:"):
        return node.digest, None
    if node.kind is NodeKind.FILE and node.size_bytes == 0:
        return node.digest, b""
    content = tree.read(path)
    if content is None:
        raise ContentNotCollected(
            f"{path} was not collected with the tree: collect everything below the git directory"
        )
    return node.digest, content


def scan(tree: Tree, git_dir: str, object_format: ObjectFormat) -> Layout:
    """Sort the files below `git_dir`; files that git would not look at are left out."""
    scanner = _Scanner(object_format)
    start = len(git_dir.rstrip("/")) + 1 if git_dir else 0
    for path, node in tree.below(git_dir):
        if node.kind is NodeKind.FILE:
            scanner.file(path[start:], path)
        elif node.kind is NodeKind.DIRECTORY and path.count("/", start) == 0:
            scanner.directories.add(path[start:])
    return Layout(
        git_dir,
        scanner.loose,
        scanner.packs,
        scanner.object_files,
        scanner.refs,
        scanner.logs,
        scanner.top,
        frozenset(scanner.directories),
    )


class _Scanner:
    def __init__(self, object_format: ObjectFormat) -> None:
        self._loose_path_size = object_format.hex_size + 1
        self.loose: dict[bytes, str] = {}
        self.packs: dict[str, dict[str, str]] = {}
        self.object_files: dict[str, str] = {}
        self.refs: dict[str, str] = {}
        self.logs: dict[str, str] = {}
        self.top: dict[str, str] = {}
        self.directories: set[str] = set()

    def file(self, name: str, path: str) -> None:
        """Put one file, `name` from the git directory, where it belongs."""
        area, _, rest = name.partition("/")
        if not rest or area == "reftable":
            self.top[name] = path
        elif area == "objects":
            self._object_file(rest, path)
        elif name.endswith(".lock"):
            return
        elif area == "refs":
            self.refs[name] = path
        elif area == "logs":
            self.logs[rest] = path

    def _object_file(self, rest: str, path: str) -> None:
        if len(rest) == self._loose_path_size and rest[2] == "/":
            try:
                self.loose[bytes.fromhex(rest[:2] + rest[3:])] = path
            except ValueError:
                return
            return
        if rest.startswith("pack/pack-"):
            name, _, extension = rest.removeprefix("pack/").partition(".")
            self.packs.setdefault(name, {})[extension] = path
        else:
            self.object_files[rest] = path
