"""One recovered repository, parsed: what every later check works on."""

from collections.abc import Mapping
from dataclasses import dataclass

from crashsim.machines.tree import NodeKind, Tree
from crashsim.oracles.git.cache import ContentCache
from crashsim.oracles.git.config import Config, parse_config
from crashsim.oracles.git.damage import Damage, FormatError
from crashsim.oracles.git.derived_files import check_derived
from crashsim.oracles.git.index import Index, merge_shared, parse_index
from crashsim.oracles.git.layout import Layout, read_file, scan
from crashsim.oracles.git.objects import OBJECT_FORMATS, SHA1, GitObject, ObjectFormat, ObjectKind
from crashsim.oracles.git.ref_backends import RefState, load_refs
from crashsim.oracles.git.rules import violation
from crashsim.oracles.git.store import ObjectStore, load_store
from crashsim.oracles.protocol import Inconclusive, Violation


@dataclass(frozen=True, slots=True)
class Format:
    """What a config says about how the repository is laid out.

    :ivar version: core.repositoryFormatVersion.
    :ivar extensions: all of `[extensions]`, names in lower case, sorted.
    """

    version: int
    extensions: tuple[tuple[str, str], ...]

    @property
    def object_format(self) -> ObjectFormat:
        """The hash. Raises Inconclusive for one that this oracle does not know."""
        name = dict(self.extensions).get("objectformat", SHA1.name)
        if name not in OBJECT_FORMATS:
            raise Inconclusive(f"the repository uses the unknown object format {name}")
        return OBJECT_FORMATS[name]

    @property
    def has_reftable(self) -> bool:
        """Whether refs are kept in reftables."""
        return dict(self.extensions).get("refstorage", "files").startswith("reftable")


@dataclass(frozen=True)
class Repository:
    """A parsed repository.

    :ivar config: None where it does not parse; an absent file is an empty one.
    :ivar format: from the config, or the one that was promised where the config lost it.
    :ivar index: None where there is none or it does not parse.
    :ivar violations: what is wrong with single files, reachable or not.
    """

    layout: Layout
    config: Config | None
    format: Format
    refs: RefState
    index: Index | None
    has_index: bool
    shallow: frozenset[bytes]
    store: ObjectStore
    violations: tuple[Violation, ...]


def exists(tree: Tree, git_dir: str) -> bool:
    """Whether anything of a git directory is there."""
    node = tree.nodes.get(git_dir)
    return node is not None and node.kind is NodeKind.DIRECTORY


def open_repository(
    tree: Tree, git_dir: str, cache: ContentCache, promised: Format | None = None
) -> Repository:
    """Parse everything below `git_dir`, damaged or not.

    :param promised: the format to read by where the config has lost it.
    Raises Inconclusive for a repository of a kind that this oracle cannot judge, and
    ContentNotCollected when the tree lacks a file's content.
    """
    violations: list[Violation] = []
    config = _load_config(tree, git_dir, cache, violations)
    found = _format(config, f"{git_dir}/config", violations)
    form = found if found is not None else promised or Format(0, ())
    if promised is not None and form != promised:
        lost = set(promised.extensions) - set(form.extensions)
        if lost:
            names = ", ".join(sorted(name for name, _ in lost))
            detail = f"{git_dir}/config no longer sets extensions.{names}"
            violations.append(violation("config-extensions-lost", f"{git_dir}/config", detail))
        form = promised
    _refuse_unknown(form)
    layout = scan(tree, git_dir, form.object_format)
    if "info/alternates" in layout.object_files:
        raise Inconclusive(f"{git_dir} borrows objects from alternates: not supported")
    refs = load_refs(tree, layout, form.object_format, form.has_reftable, cache)
    index, index_violations = _load_index(tree, layout, form.object_format, cache)
    shallow, shallow_violations = _load_shallow(tree, layout, form.object_format)
    store = load_store(tree, layout, form.object_format, cache)
    return Repository(
        layout,
        config,
        form,
        refs,
        index,
        "index" in layout.top,
        shallow,
        store,
        (
            *violations,
            *_recognised(tree, layout, refs),
            *refs.violations,
            *index_violations,
            *shallow_violations,
            *store.violations,
            *_check_peeled(layout, refs, store),
            *check_derived(tree, layout, store, form.object_format, cache),
        ),
    )


def _refuse_unknown(form: Format) -> None:
    for name, value in form.extensions:
        if name in ("partialclone", "compatobjectformat"):
            raise Inconclusive(f"the repository has extensions.{name} = {value}: not supported")


def _load_config(
    tree: Tree, git_dir: str, cache: ContentCache, violations: list[Violation]
) -> Config | None:
    path = f"{git_dir}/config"
    if path not in tree.nodes:
        return Config(())
    digest, content = read_file(tree, path)
    parsed = cache.get(("config", digest), lambda: _parsed_config(content))
    if isinstance(parsed, Config):
        return parsed
    violations.append(violation("config-unreadable", path, f"{path} {parsed}"))
    return None


def _parsed_config(content: bytes | None) -> Config | str:
    """The config, or what is wrong with it."""
    if content is None:
        return "cannot be read"
    try:
        return parse_config(content)
    except FormatError as error:
        return str(error)


def _format(config: Config | None, path: str, violations: list[Violation]) -> Format | None:
    if config is None:
        return None
    version = config.get("core.repositoryformatversion") or "0"
    if not version.isdigit() or int(version) > 1:
        detail = f"{path} has the repository format version {version!r}"
        violations.append(violation("config-unreadable", path, detail))
        return None
    return Format(int(version), tuple(sorted(config.extensions().items())))


def _recognised(tree: Tree, layout: Layout, refs: RefState) -> list[Violation]:
    missing = [name for name in ("objects", "refs") if name not in layout.directories]
    head = f"{layout.git_dir}/HEAD"
    if missing:
        detail = f"{layout.git_dir} has no directory {missing[0]}"
        return [violation("repository-unrecognised", layout.git_dir, detail)]
    if refs.head_damage is not None:
        detail = f"{head} {refs.head_damage.reason}"
        return [violation("repository-unrecognised", head, detail)]
    return []


def _check_peeled(layout: Layout, refs: RefState, store: ObjectStore) -> list[Violation]:
    """packed-refs notes what annotated tags point to, and git believes it."""
    if refs.packed is None:
        return []
    path = layout.top["packed-refs"]
    found = []
    for name, noted in refs.packed.peeled.items():
        at = store.find(bytes.fromhex(refs.packed.refs[name]))
        while isinstance(at, GitObject) and at.kind is ObjectKind.TAG:
            target = at.links[0].target
            at = store.find(target)
            if not isinstance(at, GitObject) or at.kind is not ObjectKind.TAG:
                if target.hex() != noted:
                    detail = f"{path} says that {name} peels to {noted}"
                    found.append(violation("packed-refs-corrupt", path, detail))
                break
    return found


def _load_index(
    tree: Tree, layout: Layout, object_format: ObjectFormat, cache: ContentCache
) -> tuple[Index | None, list[Violation]]:
    path = layout.top.get("index")
    if path is None:
        return None, []
    index = _parse_index_file(tree, path, object_format, cache)
    if isinstance(index, Damage):
        return None, [violation(f"index-{index.kind}", path, f"{path} {index.reason}")]
    if not index.shared.strip(b"\0"):
        return index, []
    name = f"sharedindex.{index.shared.hex()}"
    shared_path = layout.top.get(name)
    if shared_path is None:
        return None, [violation("shared-index-missing", path, f"{path} needs {name}: missing")]
    shared = _parse_index_file(tree, shared_path, object_format, cache)
    if isinstance(shared, Damage):
        detail = f"{shared_path} {shared.reason}"
        return None, [violation("shared-index-missing", shared_path, detail)]
    try:
        return merge_shared(index, shared), []
    except FormatError as error:
        return None, [violation("index-corrupt", path, f"{path} {error}")]


def _parse_index_file(
    tree: Tree, path: str, object_format: ObjectFormat, cache: ContentCache
) -> Index | Damage:
    digest, content = read_file(tree, path)
    return cache.get(
        ("index", object_format.name, digest), lambda: parse_index(content or b"", object_format)
    )


def _load_shallow(
    tree: Tree, layout: Layout, object_format: ObjectFormat
) -> tuple[frozenset[bytes], list[Violation]]:
    path = layout.top.get("shallow")
    if path is None:
        return frozenset(), []
    _, content = read_file(tree, path)
    oids = set()
    for line in (content or b"").splitlines():
        try:
            oids.add(bytes.fromhex(line.decode("ascii")))
        except ValueError:
            return frozenset(), [violation("shallow-unreadable", path, f"{path} has a bad line")]
    if any(len(oid) != object_format.size_bytes for oid in oids):
        return frozenset(), [violation("shallow-unreadable", path, f"{path} has a bad line")]
    return frozenset(oids), []


def settings(config: Config | None) -> Mapping[str, str]:
    """All settings, joined where a key is given more than once."""
    found: dict[str, str] = {}
    for key, value in config.entries if config is not None else ():
        text = "true" if value is None else value
        found[key] = f"{found[key]}\n{text}" if key in found else text
    return found
