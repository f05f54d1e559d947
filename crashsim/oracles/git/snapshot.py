"""What a workload promises: the meaning of a whole repository, small enough for a mark's text."""

import base64
from collections.abc import Mapping, Sequence

import msgspec
import zstandard

from crashsim.errors import InfrastructureError, UsageError
from crashsim.machines.tree import Tree
from crashsim.oracles.git.cache import ContentCache
from crashsim.oracles.git.repository import Format, Repository, exists, open_repository, settings

STASH = "refs/stash"
PARTS = ("head", "refs", "stash", "index", "reflogs", "config")
"""What a step changes one by one: each may be old or new while it is under way."""

PROMISE_LIMIT_BYTES = 60 << 10
_PLAIN = "git-promise/1 "
_PACKED = "git-promise/1z "
_PACK_FROM_BYTES = 4 << 10
_INFLATED_LIMIT_BYTES = 16 << 20


class DamagedBeforeCrash(InfrastructureError):
    """A repository whose state should be promised is damaged already."""


class BadPromise(UsageError):
    """A promise is too large, or a mark's text only looks like a git promise."""


class GitSnapshot(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state of a repository, free of how it is stored (loose, packed, in which backend).

    :ivar exists: False before `git init`: everything else is empty then.
    :ivar head: `ref: <name>`, or an object name in hexadecimal.
    :ivar refs: name -> object name or `ref: <name>`, HEAD not included.
    :ivar stash: object names of the stash entries, newest first.
    :ivar index: `Index.fingerprint()`; empty where there is no index.
    :ivar reflogs: name of the ref -> `Reflog.fingerprint`; empty logs are left out.
    :ivar settings: the config: key -> value.
    """

    exists: bool = True
    head: str = ""
    refs: dict[str, str] = {}
    stash: list[str] = []
    index: str = ""
    reflogs: dict[str, str] = {}
    settings: dict[str, str] = {}

    def format(self) -> Format:
        """How the repository is laid out."""
        version = self.settings.get("core.repositoryformatversion", "0")
        extensions = {
            key.removeprefix("extensions."): value
            for key, value in self.settings.items()
            if key.startswith("extensions.")
        }
        return Format(int(version) if version.isdigit() else 0, tuple(sorted(extensions.items())))


class GitPromise(msgspec.Struct, frozen=True, omit_defaults=True):
    """One promise: after `step` the repository is in `state`.

    :ivar legal_between: states through which the step may pass on its way from the promise before.
    :ivar unnoted_between: parts (of `PARTS`) that the step takes through values that nobody noted:
        while it is under way, values that are in no state are legal for them. `git stash pop`
        does so with the index: it stages everything, writes the index, and unstages it again.
    :ivar one_transaction: the step changes all of its refs in one transaction: while it is under
        way they are all old or all new.
    :ivar others: states of further repositories on the same filesystem (a remote that the step
        pushes to): git directory -> state.
    """

    step: str
    state: GitSnapshot
    legal_between: list[GitSnapshot] = []
    unnoted_between: list[str] = []
    one_transaction: bool = False
    others: dict[str, GitSnapshot] = {}

    def of(self, git_dir: str) -> "GitPromise | None":
        """The promise for one of the others; None where it says nothing of it.

        What else is declared of the step is declared of the main repository only.
        """
        if git_dir not in self.others:
            return None
        return GitPromise(self.step, self.others[git_dir])


def snapshot(
    tree: Tree, git_dir: str = "repo/.git", cache: ContentCache | None = None
) -> GitSnapshot:
    """The state of a healthy repository; one with exists=False where there is none.

    :param tree: with the contents of everything below `git_dir`.
    Raises DamagedBeforeCrash when refs, index or config cannot be read.
    """
    if not exists(tree, git_dir):
        return GitSnapshot(exists=False)
    repository = open_repository(tree, git_dir, cache or ContentCache())
    if repository.violations:
        first = repository.violations[0]
        raise DamagedBeforeCrash(
            f"the repository is damaged before any crash: {first.detail} ({first.rule}); "
            "look at what the workload did to it"
        )
    return take_snapshot(repository)


def take_snapshot(repository: Repository) -> GitSnapshot:
    """The state of a parsed repository; what cannot be read is left out."""
    refs = repository.refs
    return GitSnapshot(
        head=plain(refs.head or ""),
        refs={plain(name): plain(value) for name, value in sorted(refs.refs.items())},
        stash=stash_list(repository),
        index=repository.index.fingerprint() if repository.index is not None else "",
        reflogs={
            plain(name): reflog.fingerprint
            for name, reflog in sorted(refs.reflogs.items())
            if reflog.entries
        },
        settings={plain(key): plain(value) for key, value in settings(repository.config).items()},
    )


def plain(text: str) -> str:
    """A name from the guest as text: bytes that are no UTF-8 become backslash escapes."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def stash_list(repository: Repository) -> list[str]:
    """Stash entries, newest first: the reflog of refs/stash, if that ref is there."""
    refs = repository.refs
    if STASH not in refs.refs or STASH not in refs.reflogs:
        return []
    return [entry.new for entry in reversed(refs.reflogs[STASH].entries)]


def encode_promise(
    step_name: str,
    state: GitSnapshot,
    *,
    legal_between: Sequence[GitSnapshot] = (),
    unnoted_between: Sequence[str] = (),
    one_transaction: bool = False,
    others: Mapping[str, GitSnapshot] | None = None,
) -> str:
    """A promise as the text of a mark: one line, at most `PROMISE_LIMIT_BYTES`, else BadPromise.

    The arguments are those of `GitPromise`.
    """
    unknown = set(unnoted_between) - set(PARTS)
    if unknown:
        raise BadPromise(f"{min(unknown)!r} is no part of a repository: {', '.join(PARTS)} are")
    promise = GitPromise(
        step_name,
        state,
        list(legal_between),
        list(unnoted_between),
        one_transaction,
        dict(others or {}),
    )
    text = msgspec.json.encode(promise)
    if len(text) < _PACK_FROM_BYTES:
        return _PLAIN + text.decode("utf-8")
    compressed = zstandard.ZstdCompressor(level=19).compress(text)
    packed = _PACKED + base64.b85encode(compressed).decode("ascii")
    if len(packed) > PROMISE_LIMIT_BYTES:
        raise BadPromise(
            f"the promise after {step_name!r} takes {len(packed)} bytes, at most "
            f"{PROMISE_LIMIT_BYTES} fit into a mark: use fewer refs or shorter reflogs"
        )
    return packed


def is_promise(text: str) -> bool:
    """Whether a mark's text is a git promise; others are skipped."""
    return text.startswith((_PLAIN, _PACKED))


def decode_promise(text: str) -> GitPromise:
    """The promise in a mark's text. Raises BadPromise where there is none, or a broken one."""
    try:
        if text.startswith(_PLAIN):
            return msgspec.json.decode(text.removeprefix(_PLAIN), type=GitPromise)
        if text.startswith(_PACKED):
            packed = base64.b85decode(text.removeprefix(_PACKED))
            if not 0 <= zstandard.frame_content_size(packed) <= _INFLATED_LIMIT_BYTES:
                raise BadPromise("a packed promise is too large, or does not say its size")
            json = zstandard.ZstdDecompressor().decompress(packed)
            return msgspec.json.decode(json, type=GitPromise)
    except (ValueError, zstandard.ZstdError, msgspec.MsgspecError) as error:
        raise BadPromise(f"a mark is no git promise: {error}; text: {text[:80]!r}") from error
    raise BadPromise(f"a mark is no git promise: {text[:80]!r}")
