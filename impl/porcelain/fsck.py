"""`fsck`: every object read, every link followed, every pack and index of packs verified."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from enum import IntFlag

from impl.context import Context
from impl.errors import Corrupt, CorruptObject, StoreError, UsageError
from impl.objects.fsck_content import Severity, content_problems
from impl.objects.fsck_graph import Broken, ObjectGraph, links_of
from impl.objects.loose import loose_names, loose_path, read_loose
from impl.objects.midx_maintenance import verify_midx
from impl.objects.pack_errors import ObjectTooLarge, UnsupportedVersion
from impl.objects.pack_file import Pack
from impl.objects.pack_format import TYPE_NAMES
from impl.objects.pack_verify import pack_problems
from impl.objects.walk_roots import index_roots, reference_roots, reflog_roots
from impl.options import Options, parse_options

_USAGE = (
    "usage: refgit fsck [--strict] [--[no-]full] [--[no-]dangling] [--unreachable]\n"
    "       [--connectivity-only] [--[no-]reflogs] [--cache] [--no-progress]"
)


class Found(IntFlag):
    """The exit code: what was found, as in git."""

    NOTHING = 0
    OBJECT = 1
    REACHABLE = 2
    PACK = 4
    REFERENCE = 8


def run(context: Context, arguments: list[str]) -> int:
    """Check the repository and print what is wrong; 0 if nothing is.

    Raises UsageError, OSError, and StoreError for what makes a check impossible (config).
    """
    options = parse_options(
        arguments,
        _USAGE,
        flags="strict full no-full dangling no-dangling unreachable connectivity-only reflogs "
        "no-reflogs cache progress no-progress lost-found verbose|v root tags",
    )
    if options.rest:
        raise UsageError(_USAGE)
    check = _Check(context, options)
    check.references()
    check.loose_objects()
    check.packs()
    check.connectivity()
    return int(check.found)


class _Check:
    def __init__(self, context: Context, options: Options) -> None:
        self._context = context
        self._options = options.flags
        self._repository = context.repository
        self._graph = ObjectGraph()
        self._roots: dict[str, str] = {}
        self.found = Found.NOTHING

    def _error(self, kind: Found, text: str) -> None:
        self.found |= kind
        sys.stderr.write(f"error: {text}\n")

    def references(self) -> None:
        """Collect the roots; what cannot be read is told and passed over."""
        store = self._repository.references
        for problem in store.verify():
            self._error(Found.REFERENCE, str(problem))
        for name, value in store.list(on_broken=lambda name, error: None):
            if isinstance(value, str):
                self._roots.setdefault(value, name)
        sources = [reference_roots(self._repository), self._index_roots()]
        if "no-reflogs" not in self._options:
            sources.append(self._reflog_roots())
        for source in sources:
            try:
                for name, value in source:
                    self._roots.setdefault(value, name)
            except StoreError as error:
                self._error(Found.REFERENCE, str(error))

    def _index_roots(self) -> Iterator[tuple[str, str]]:
        for value in index_roots(self._repository):
            yield "the index", value

    def _reflog_roots(self) -> Iterator[tuple[str, str]]:
        for name, value in reflog_roots(self._repository):
            yield f"reflog of {name}", value

    def loose_objects(self) -> None:
        """Read every loose object, of alternates too."""
        repository = self._repository
        port, algorithm = repository.port, repository.algorithm
        for source in repository.objects.sources:
            for name in loose_names(port, source.directory, algorithm):
                path = loose_path(source.directory, name)
                try:
                    found = read_loose(port, path, name, algorithm)
                except CorruptObject as error:
                    self._error(Found.OBJECT, f"{name}: object corrupt or missing: {path}: {error}")
                    continue
                if found is not None:
                    self._object(bytes.fromhex(name), *found)

    def packs(self) -> None:
        """Verify every pack and read its objects; verify the multi-pack-index."""
        for source in self._repository.objects.sources:
            for pack in source.packs.packs():
                if "connectivity-only" not in self._options:
                    for problem in pack_problems(pack):
                        self._error(Found.PACK, problem)
                self._packed_objects(pack)
            for problem in verify_midx(source.packs):
                self._error(Found.PACK, problem)

    def _packed_objects(self, pack: Pack) -> None:
        try:
            places = list(zip(pack.index.names, pack.index.offsets, strict=True))
        except (Corrupt, UnsupportedVersion) as error:
            self._error(Found.PACK, str(error))
            return
        for name, offset in sorted(places, key=lambda place: place[1]):
            try:
                kind, content = pack.read(offset, name)
            except (Corrupt, ObjectTooLarge, UnsupportedVersion) as error:
                self._error(Found.PACK, str(error))
                continue
            self._object(name, TYPE_NAMES[kind], content)

    def _object(self, name: bytes, type_name: str, content: bytes) -> None:
        if name in self._graph.nodes:
            return
        for problem in content_problems(type_name, content, self._repository.algorithm):
            is_error = problem.severity is Severity.ERROR or "strict" in self._options
            word = "error" if is_error else "warning"
            if is_error:
                self.found |= Found.OBJECT
            where = f"{word} in {type_name} {name.hex()}"
            sys.stderr.write(f"{where}: {problem.identifier}: {problem.text}\n")
        try:
            links = links_of(type_name, content, name)
        except CorruptObject as error:
            self._error(Found.OBJECT, str(error))
            links = ()
        self._graph.add(name, type_name, links)

    def connectivity(self) -> None:
        """Follow the links from all roots."""
        graph, context = self._graph, self._context
        for value, origin in self._roots.items():
            if bytes.fromhex(value) not in graph.nodes:
                self._error(Found.REACHABLE, f"{origin}: invalid sha1 pointer {value}")
        reached, broken = graph.reach(bytes.fromhex(value) for value in self._roots)
        self._print_broken(broken)
        if "unreachable" in self._options:
            for name, node in graph.nodes.items():
                if name not in reached:
                    context.print(f"unreachable {node.type_name} {name.hex()}")
        elif "no-dangling" not in self._options:
            for name, type_name in graph.dangling(reached):
                context.print(f"dangling {type_name} {name.hex()}")

    def _print_broken(self, broken: Sequence[Broken]) -> None:
        graph, context = self._graph, self._context
        missing: dict[bytes, str] = {}
        for source, link in broken:
            self.found |= Found.REACHABLE
            context.print(f"broken link from {graph.nodes[source].type_name:>7} {source.hex()}")
            context.print(f"              to {link.type_name:>7} {link.name.hex()}")
            if link.name not in graph.nodes:
                missing[link.name] = link.type_name
        for name, type_name in missing.items():
            context.print(f"missing {type_name} {name.hex()}")
