"""All objects of a repository, as git would find them: packs first, then loose files."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from crashsim.machines.tree import Tree
from crashsim.oracles.git.cache import ContentCache
from crashsim.oracles.git.damage import Damage, DamageKind
from crashsim.oracles.git.layout import Layout, read_file
from crashsim.oracles.git.midx import (
    Midx,
    RefusedMidx,
    contradiction,
    hidden_objects,
    parse_midx,
)
from crashsim.oracles.git.objects import GitObject, ObjectFormat, parse_loose
from crashsim.oracles.git.pack import Pack, read_pack
from crashsim.oracles.git.pack_index import PackIndex, parse_pack_index
from crashsim.oracles.git.rules import violation
from crashsim.oracles.protocol import Violation

_MIDX = "pack/multi-pack-index"
_UNREADABLE = Damage(DamageKind.CORRUPT, "cannot be read")


@dataclass(frozen=True)
class LoadedPack:
    """A pack that git sees: it has an index that parses.

    :ivar name: `pack-<checksum>`.
    :ivar path: of the .pack file.
    """

    name: str
    path: str
    index: PackIndex
    pack: Pack


@dataclass(frozen=True)
class LoadedMidx:
    """The multi-pack-index, which git reads instead of the indexes of the packs that it names.

    :ivar packs: names of the packs that git reads through it.
    :ivar hidden: objects that git does not find in those packs.
    """

    midx: Midx
    packs: frozenset[str]
    hidden: frozenset[bytes]


@dataclass(frozen=True)
class ObjectStore:
    """Where each object is.

    :ivar loose: raw name -> (path, the object or what is wrong with its file).
    :ivar violations: what is wrong with packs and their indexes.
    """

    loose: Mapping[bytes, tuple[str, GitObject | Damage]]
    packs: tuple[LoadedPack, ...]
    midx: LoadedMidx | None
    violations: tuple[Violation, ...]

    def find(self, oid: bytes) -> GitObject | Damage:
        """The object, from wherever a good copy is; else how the best copy is broken."""
        worst: Damage | None = None
        is_hidden = self.midx is not None and oid in self.midx.hidden
        for loaded in self.packs:
            if is_hidden and self.midx is not None and loaded.name in self.midx.packs:
                continue
            found = loaded.pack.objects.get(oid)
            if isinstance(found, GitObject):
                return found
            worst = worst or found
        _, loose = self.loose.get(oid, ("", None))
        if isinstance(loose, GitObject):
            return loose
        return worst or loose or Damage(DamageKind.MISSING, "is missing")

    def where(self, oid: bytes) -> str:
        """The path of the file that should hold `oid`, for messages; its name when unknown."""
        for loaded in self.packs:
            if oid in loaded.pack.objects:
                return loaded.path
        return self.loose[oid][0] if oid in self.loose else oid.hex()

    def poisoned(self) -> Iterator[tuple[str, Damage]]:
        """Bad loose files that stand in the way of writing the same object again."""
        for oid, (path, found) in self.loose.items():
            if isinstance(found, Damage) and isinstance(self.find(oid), Damage):
                yield path, found


def load_store(
    tree: Tree, layout: Layout, object_format: ObjectFormat, cache: ContentCache
) -> ObjectStore:
    """Read every loose object and every pack with an index."""
    loose = {
        oid: (path, _loose(tree, path, oid, object_format, cache))
        for oid, path in layout.loose.items()
    }
    packs: list[LoadedPack] = []
    violations: list[Violation] = []
    for name, files in layout.packs.items():
        if "idx" in files and "pack" in files:
            loaded, found = _load_pack(tree, name, files, object_format, cache)
            packs.extend(loaded)
            violations.extend(found)
    midx = _load_midx(tree, layout, packs, object_format, cache, violations)
    return ObjectStore(loose, tuple(packs), midx, tuple(violations))


def _loose(
    tree: Tree, path: str, oid: bytes, object_format: ObjectFormat, cache: ContentCache
) -> GitObject | Damage:
    digest, content = read_file(tree, path)
    if content is None:
        return _UNREADABLE
    found = cache.get(
        ("loose", object_format.name, digest), lambda: parse_loose(content, object_format)
    )
    if isinstance(found, GitObject) and found.oid != oid:
        return Damage(DamageKind.CORRUPT, f"hashes to {found.oid.hex()}")
    return found


def _load_pack(
    tree: Tree,
    name: str,
    files: Mapping[str, str],
    object_format: ObjectFormat,
    cache: ContentCache,
) -> tuple[list[LoadedPack], list[Violation]]:
    index_digest, index_content = read_file(tree, files["idx"])
    pack_digest, pack_content = read_file(tree, files["pack"])
    if index_content is None:
        return [], [violation("pack-index-damaged", files["idx"], "cannot be read")]
    index = cache.get(
        ("idx", object_format.name, index_digest),
        lambda: parse_pack_index(index_content, object_format),
    )
    if isinstance(index, Damage):
        return [], [violation("pack-index-damaged", files["idx"], f"{files['idx']} {index.reason}")]
    pack = cache.get(
        ("pack", object_format.name, index_digest, pack_digest),
        lambda: read_pack(pack_content or b"", index, object_format),
    )
    violations = []
    if pack.damage is not None:
        detail = f"{files['pack']} {pack.damage.reason}"
        violations.append(violation("pack-damaged", files["pack"], detail))
    return [LoadedPack(name, files["pack"], index, pack)], violations


def _load_midx(
    tree: Tree,
    layout: Layout,
    packs: list[LoadedPack],
    object_format: ObjectFormat,
    cache: ContentCache,
    violations: list[Violation],
) -> LoadedMidx | None:
    path = layout.object_files.get(_MIDX)
    if path is None:
        return None
    digest, content = read_file(tree, path)
    midx = cache.get(
        ("midx", object_format.name, digest), lambda: parse_midx(content or b"", object_format)
    )
    if isinstance(midx, RefusedMidx):
        if midx.is_fatal:
            violations.append(violation("midx-fatal", path, f"{path} {midx.reason}"))
        return None
    indexes = {loaded.name: loaded.index for loaded in packs if loaded.name in midx.packs}
    checksums = tuple((name, index.pack_checksum) for name, index in sorted(indexes.items()))
    fault = midx.fault or cache.get(
        ("midx-packs", object_format.name, digest, checksums), lambda: contradiction(midx, indexes)
    )
    if fault:
        violations.append(violation("midx-wrong", path, f"{path} {fault}"))
    return LoadedMidx(midx, frozenset(indexes), hidden_objects(midx, frozenset(indexes)))
