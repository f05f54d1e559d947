"""Checks every derived file of a repository: .rev, .bitmap and commit-graph."""

from crashsim.machines.tree import Tree
from crashsim.oracles.git.cache import ContentCache
from crashsim.oracles.git.commit_graph import GraphFile, graph_contradiction, parse_graph
from crashsim.oracles.git.derived import bitmap_fault, rev_fault
from crashsim.oracles.git.layout import Layout, read_file
from crashsim.oracles.git.objects import ObjectFormat
from crashsim.oracles.git.rules import violation
from crashsim.oracles.git.store import LoadedMidx, LoadedPack, ObjectStore
from crashsim.oracles.protocol import Violation

_GRAPH = "info/commit-graph"
_CHAIN = "info/commit-graphs/commit-graph-chain"


def check_derived(
    tree: Tree,
    layout: Layout,
    store: ObjectStore,
    object_format: ObjectFormat,
    cache: ContentCache,
) -> list[Violation]:
    """Everything that git would believe and that is wrong."""
    found = []
    for loaded in store.packs:
        found += _beside_pack(tree, layout, loaded, object_format, cache)
    if store.midx is not None:
        found += _midx_bitmap(tree, layout, store.midx, object_format, cache)
    return found + _commit_graph(tree, layout, store, object_format, cache)


def _beside_pack(
    tree: Tree,
    layout: Layout,
    loaded: LoadedPack,
    object_format: ObjectFormat,
    cache: ContentCache,
) -> list[Violation]:
    files = layout.packs[loaded.name]
    index, found = loaded.index, []
    if "rev" in files:
        digest, content = read_file(tree, files["rev"])
        fault = cache.get(
            ("rev", index.pack_checksum, len(index.entries), digest),
            lambda: rev_fault(content or b"", index, object_format),
        )
        if fault:
            found.append(violation("rev-wrong", files["rev"], f"{files['rev']} {fault}"))
    if "bitmap" in files:
        path = files["bitmap"]
        checksum, count = index.pack_checksum, len(index.entries)
        found += _bitmap(tree, path, checksum, count, object_format, cache)
    return found


def _bitmap(
    tree: Tree,
    path: str,
    checksum: bytes,
    count: int,
    object_format: ObjectFormat,
    cache: ContentCache,
) -> list[Violation]:
    digest, content = read_file(tree, path)
    fault = cache.get(
        ("bitmap", checksum, count, digest),
        lambda: bitmap_fault(content or b"", checksum, count, object_format),
    )
    return [violation("bitmap-wrong", path, f"{path} {fault}")] if fault else []


def _midx_bitmap(
    tree: Tree, layout: Layout, midx: LoadedMidx, object_format: ObjectFormat, cache: ContentCache
) -> list[Violation]:
    name = f"pack/multi-pack-index-{midx.midx.checksum.hex()}.bitmap"
    if name not in layout.object_files:
        return []
    path, count = layout.object_files[name], len(midx.midx.entries)
    return _bitmap(tree, path, midx.midx.checksum, count, object_format, cache)


def _commit_graph(
    tree: Tree,
    layout: Layout,
    store: ObjectStore,
    object_format: ObjectFormat,
    cache: ContentCache,
) -> list[Violation]:
    """The single file if git accepts it, else the chain as far as git accepts it."""
    single = layout.object_files.get(_GRAPH)
    if single is not None:
        file = _graph_file(tree, single, object_format, cache)
        if file is not None:
            return _graph_violations([file], store, single)
    chain = layout.object_files.get(_CHAIN)
    if chain is None:
        return []
    _, content = read_file(tree, chain)
    files = []
    for line in (content or b"").split(b"\n"):
        name = f"info/commit-graphs/graph-{line.decode('ascii', 'replace')}.graph"
        path = layout.object_files.get(name)
        file = _graph_file(tree, path, object_format, cache) if path is not None else None
        if file is None:
            break
        files.append(file)
    return _graph_violations(files, store, chain)


def _graph_file(
    tree: Tree, path: str, object_format: ObjectFormat, cache: ContentCache
) -> GraphFile | None:
    digest, content = read_file(tree, path)
    file = cache.get(
        ("commit-graph", object_format.name, digest),
        lambda: parse_graph(content or b"", object_format),
    )
    return file if isinstance(file, GraphFile) else None


def _graph_violations(files: list[GraphFile], store: ObjectStore, path: str) -> list[Violation]:
    fault = graph_contradiction(files, store.find)
    return [violation("commit-graph-wrong", path, f"{path} {fault}")] if fault else []
