"""What a workload promises: the meaning of a whole repository, small enough for a mark's text."""

import base64
import binascii
import zlib
from collections.abc import Sequence

import msgspec

from crashsim.errors import InfrastructureError, UsageError
from crashsim.machines.tree import Tree
from crashsim.oracles.git.cache import ContentCache
from crashsim.oracles.git.repository import Format, Repository, exists, open_repository, settings

STASH = "refs/stash"
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
        return Format(int(version), tuple(sorted(extensions.items())))


class GitPromise(msgspec.Struct, frozen=True, omit_defaults=True):
    """One promise: after `step` the repository is in `state`.

    :ivar legal_between: states through which the step may pass on its way from the promise before.
    :ivar any_between: the step passes through states that nobody noted: while it is under way,
        values that are in no state are legal.
    :ivar one_transaction: the step changes all of its refs in one transaction: while it is under
        way they are all old or all new.
    """

    step: str
    state: GitSnapshot
    legal_between: list[GitSnapshot] = []
    any_between: bool = False
    one_transaction: bool = False


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
        head=refs.head or "",
        refs=dict(sorted(refs.refs.items())),
        stash=stash_list(repository),
        index=repository.index.fingerprint() if repository.index is not None else "",
        reflogs={
            name: reflog.fingerprint
            for name, reflog in sorted(refs.reflogs.items())
            if reflog.entries
        },
        settings=dict(settings(repository.config)),
    )


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
    any_between: bool = False,
    one_transaction: bool = False,
) -> str:
    """A promise as the text of a mark: one line, at most `PROMISE_LIMIT_BYTES`, else BadPromise."""
    promise = GitPromise(step_name, state, list(legal_between), any_between, one_transaction)
    text = msgspec.json.encode(promise)
    if len(text) < _PACK_FROM_BYTES:
        return _PLAIN + text.decode("utf-8")
    packed = _PACKED + base64.b85encode(zlib.compress(text, 9)).decode("ascii")
    if len(packed) > PROMISE_LIMIT_BYTES:
        raise BadPromise(
            f"the promise after {step_name!r} takes {len(packed)} bytes, at most "
            f"{PROMISE_LIMIT_BYTES} fit into a mark: use fewer refs or shorter reflogs"
        )
    return packed


def decode_promise(text: str) -> GitPromise | None:
    """The promise in a mark's text; None for any other mark. Raises BadPromise for a broken one."""
    try:
        if text.startswith(_PLAIN):
            return msgspec.json.decode(text.removeprefix(_PLAIN), type=GitPromise)
        if text.startswith(_PACKED):
            packed = base64.b85decode(text.removeprefix(_PACKED))
            plain = zlib.decompressobj().decompress(packed, _INFLATED_LIMIT_BYTES)
            return msgspec.json.decode(plain, type=GitPromise)
    except (ValueError, binascii.Error, zlib.error, msgspec.MsgspecError) as error:
        raise BadPromise(f"a mark is no git promise: {error}; text: {text[:80]!r}") from error
    return None
