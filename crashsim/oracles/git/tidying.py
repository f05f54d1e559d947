"""What a person does after a crash before work goes on: the written policy, as data.

Locks are what the policy of the git oracle tolerates: git names them and asks for their removal.
The rest is what a user would have to know: each of it has been told as a violation before, and is
mended only so that the same repository can live on (docs/live-cuts.md).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from crashsim.machines.tree import NodeKind, Tree
from crashsim.oracles.git.cache import ContentCache
from crashsim.oracles.git.layout import read_file
from crashsim.oracles.git.objects import ObjectFormat
from crashsim.oracles.git.reflog import parse_reflog
from crashsim.oracles.git.repository import open_repository

LOCK = "stale lock"
_REMOVED_RULES = frozenset({"packed-refs-new-left", "pseudoref-broken", "poisoned-object"})
_CUT_RULES = frozenset({"reflog-cut-off", "reflog-corrupt"})


@dataclass(frozen=True)
class Tidying:
    """What to do.

    :ivar removed: path -> why: `stale lock`, or the rule that was broken.
    :ivar rewritten: path -> the lines of a reflog that are whole.
    """

    removed: Mapping[str, str] = field(default_factory=dict)
    rewritten: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def reasons(self) -> list[str]:
        """Why, once for each file."""
        return sorted([*self.removed.values(), *("reflog cut" for _ in self.rewritten)])


def tidying(tree: Tree, git_dir: str, *, mend: bool) -> Tidying:
    """What a recovered repository needs before it is used again.

    :param mend: also what is no lock.
    Raises Inconclusive and ContentNotCollected.
    """
    removed = {
        path: LOCK
        for path, node in tree.below(git_dir)
        if node.kind is NodeKind.FILE and (path.endswith(".lock") or path == f"{git_dir}/gc.pid")
    }
    if not mend:
        return Tidying(removed)
    repository = open_repository(tree, git_dir, ContentCache())
    broken = {found.subject: found.rule for found in repository.violations}
    broken |= {path: "poisoned-object" for path, _ in repository.store.poisoned()}
    removed |= {path: rule for path, rule in broken.items() if rule in _REMOVED_RULES}
    rewritten = {
        path: _whole_lines(read_file(tree, path)[1] or b"", repository.format.object_format)
        for path, rule in broken.items()
        if rule in _CUT_RULES
    }
    return Tidying(removed, rewritten)


def _whole_lines(content: bytes, object_format: ObjectFormat) -> bytes:
    lines = [line + b"\n" for line in content.split(b"\n")[:-1]]
    return b"".join(line for line in lines if not parse_reflog(line, object_format).bad_lines)
