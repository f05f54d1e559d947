"""The commit-graph, one file or a chain (gitformat-commit-graph(5))."""

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from crashsim.oracles.git.chunks import oid_table, read_chunks
from crashsim.oracles.git.damage import Damage, FormatError, classify
from crashsim.oracles.git.objects import SHA1, GitObject, ObjectFormat, ObjectKind
from crashsim.oracles.git.pack_index import check_names, parse_fanout

_HEADER_BYTES = 8
_NO_PARENT = 0x70000000
_EDGES = 0x80000000
_SECONDS_MASK = (1 << 34) - 1


@dataclass(frozen=True, slots=True)
class GraphCommit:
    """What a graph says of one commit; parents are positions in the whole chain."""

    oid: bytes
    tree: bytes
    parents: tuple[int, ...]
    committed_seconds: int


@dataclass(frozen=True, slots=True)
class GraphFile:
    """One file that git accepts.

    :ivar fault: what is wrong with it although git accepts it; empty when nothing is.
    """

    commits: tuple[GraphCommit, ...]
    fault: str


def parse_graph(content: bytes, object_format: ObjectFormat) -> GraphFile | Damage:
    """Read one file; Damage stands for one that git refuses, which does no harm."""
    try:
        return _parse(content, object_format)
    except (FormatError, struct.error) as error:
        return classify(content, str(error))


def _parse(content: bytes, object_format: ObjectFormat) -> GraphFile:
    oid_bytes = object_format.size_bytes
    if len(content) < _HEADER_BYTES + oid_bytes or content[:4] != b"CGPH":
        raise FormatError("has no commit-graph signature")
    version, hash_version, count = content[4], content[5], content[6]
    if version != 1 or hash_version != (1 if object_format is SHA1 else 2):
        raise FormatError(f"has the version {version} and hash version {hash_version}")
    chunks = read_chunks(content, _HEADER_BYTES, count, oid_bytes)
    if not {b"OIDF", b"OIDL", b"CDAT"} <= chunks.keys() or len(chunks[b"OIDF"]) != 1024:
        raise FormatError("lacks a chunk that it needs")
    fanout = struct.unpack(">256I", chunks[b"OIDF"])
    oids = oid_table(chunks[b"OIDL"], fanout[255], oid_bytes)
    record_bytes = oid_bytes + 16
    if len(chunks[b"CDAT"]) != record_bytes * len(oids):
        raise FormatError("has commit data of the wrong size")
    fault = _fault(content, chunks, oids, object_format)
    commits = tuple(
        _commit(oid, chunks[b"CDAT"], number * record_bytes, chunks.get(b"EDGE", b""), oid_bytes)
        for number, oid in enumerate(oids)
    )
    return GraphFile(commits, fault)


def _fault(
    content: bytes, chunks: Mapping[bytes, bytes], oids: list[bytes], object_format: ObjectFormat
) -> str:
    try:
        check_names(oids, parse_fanout(chunks[b"OIDF"], 0))
    except FormatError as error:
        return str(error)
    oid_bytes = object_format.size_bytes
    good = object_format.digest(content[:-oid_bytes]) == content[-oid_bytes:]
    return "" if good else "has a bad checksum"


def _commit(oid: bytes, data: bytes, at: int, edges: bytes, oid_bytes: int) -> GraphCommit:
    tree = data[at : at + oid_bytes]
    first, second, high, low = struct.unpack_from(">IIII", data, at + oid_bytes)
    parents = [] if first == _NO_PARENT else [first]
    if second & _EDGES:
        position = 4 * (second & ~_EDGES)
        while position + 4 <= len(edges):
            parent = struct.unpack_from(">I", edges, position)[0]
            parents.append(parent & ~_EDGES)
            position += 4
            if parent & _EDGES:
                break
    elif second != _NO_PARENT:
        parents.append(second)
    return GraphCommit(oid, tree, tuple(parents), (high << 32 | low) & _SECONDS_MASK)


def graph_contradiction(files: list[GraphFile], find: Callable[[bytes], GitObject | Damage]) -> str:
    """What the files of a chain, the base first, say otherwise than the commits; or empty.

    Commits that are not there are passed over: their refs are reported for them.
    """
    oids = [commit.oid for file in files for commit in file.commits]
    for file in files:
        if file.fault:
            return file.fault
        for commit in file.commits:
            found = find(commit.oid)
            if isinstance(found, GitObject) and not _agrees(commit, found, oids):
                return f"has wrong data for commit {commit.oid.hex()}"
    return ""


def _agrees(commit: GraphCommit, found: GitObject, oids: list[bytes]) -> bool:
    if found.kind is not ObjectKind.COMMIT or found.links[0].target != commit.tree:
        return False
    if any(parent >= len(oids) for parent in commit.parents):
        return False
    parents = [oids[parent] for parent in commit.parents]
    if parents != [link.target for link in found.links[1:]]:
        return False
    return found.committed_seconds & _SECONDS_MASK == commit.committed_seconds
