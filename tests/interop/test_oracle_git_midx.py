"""Multi-pack-indexes that git accepts and that say the wrong thing; and packs that are gone."""

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from crashsim.oracles.git.midx import Midx, MidxEntry, parse_midx
from crashsim.oracles.git.objects import SHA1
from crashsim.oracles.git.pack_index import IndexEntry, PackIndex, parse_pack_index
from tests.support.git_repository import GIT_DIR, GitRepository

NAME = "objects/pack/multi-pack-index"


def rebuilt(midx: Midx, entries: list[MidxEntry]) -> bytes:
    """A well-formed midx of these entries, checksum and all."""
    names = b"".join(f"{name}.idx".encode() + b"\0" for name in midx.packs)
    names += bytes(-len(names) % 4)
    counts = [sum(entry.oid[0] <= first for entry in entries) for first in range(256)]
    chunks = {
        b"PNAM": names,
        b"OIDF": struct.pack(">256I", *counts),
        b"OIDL": b"".join(entry.oid for entry in entries),
        b"OOFF": b"".join(struct.pack(">II", entry.pack, entry.offset) for entry in entries),
    }
    position = 12 + 12 * (len(chunks) + 1)
    table = b""
    for name, content in chunks.items():
        table += struct.pack(">4sQ", name, position)
        position += len(content)
    table += struct.pack(">4sQ", bytes(4), position)
    header = struct.pack(">4sBBBBI", b"MIDX", 1, 1, len(chunks), 0, len(midx.packs))
    body = header + table + b"".join(chunks.values())
    return body + SHA1.digest(body)


@pytest.fixture
def repository(tmp_path: Path) -> GitRepository:
    """Two packs, the second with all that the first has, under a midx."""
    made = GitRepository(tmp_path)
    made.init()
    made.commit()
    made.git("repack", "-dq")
    made.commit()
    made.git("repack", "-aq")
    made.git("prune-packed")
    made.git("multi-pack-index", "write")
    made.promise("two packs")
    return made


def accepted(repository: GitRepository) -> Midx:
    midx = parse_midx(repository.file(NAME), SHA1)
    assert isinstance(midx, Midx)
    assert len(midx.packs) == 2
    return midx


def pack_path(name: str) -> str:
    return f"objects/pack/{name}.pack"


def pack_entries(repository: GitRepository, name: str) -> tuple[IndexEntry, ...]:
    index = parse_pack_index(repository.file(f"objects/pack/{name}.idx"), SHA1)
    assert isinstance(index, PackIndex)
    return index.entries


def drop_last(entries: list[MidxEntry]) -> list[MidxEntry]:
    return entries[:-1]


def move_last(entries: list[MidxEntry]) -> list[MidxEntry]:
    last = entries[-1]
    return [*entries[:-1], MidxEntry(last.oid, last.pack, last.offset + 1)]


def test_rebuilt_one_is_fine(repository: GitRepository) -> None:
    midx = accepted(repository)
    tree = repository.damaged({NAME: rebuilt(midx, list(midx.entries))})
    assert repository.rules(tree) == set()


@pytest.mark.parametrize("change", [drop_last, move_last])
def test_wrong_contents(
    repository: GitRepository, change: Callable[[list[MidxEntry]], list[MidxEntry]]
) -> None:
    midx = accepted(repository)
    content = rebuilt(midx, change(list(midx.entries)))
    assert repository.rules(repository.damaged({NAME: content})) == {"midx-wrong"}
    path = repository.root / GIT_DIR / NAME
    path.chmod(0o644)
    path.write_bytes(content)
    assert repository.run("cat-file", "-p", midx.entries[-1].oid.hex()).returncode != 0


def test_copy_in_a_present_pack_does_not_help(repository: GitRepository) -> None:
    """git does not look for the copy: its midx names both packs."""
    midx = accepted(repository)
    small, large = sorted(midx.packs, key=lambda name: len(repository.file(pack_path(name))))
    offsets = {entry.oid: entry.offset for entry in pack_entries(repository, small)}
    number = midx.packs.index(small)
    moved = [
        MidxEntry(entry.oid, number, offsets[entry.oid]) if entry.oid in offsets else entry
        for entry in midx.entries
    ]
    content = rebuilt(midx, moved)
    assert repository.rules(repository.damaged({NAME: content})) == set()
    rules = repository.rules(repository.damaged({NAME: content, pack_path(small): None}))
    assert "ref-object-missing" in rules
    assert not rules & {"midx-wrong", "midx-fatal"}
    path = repository.root / GIT_DIR / NAME
    path.chmod(0o644)
    path.write_bytes(content)
    (repository.root / GIT_DIR / pack_path(small)).unlink()
    assert large in midx.packs
    assert repository.run("cat-file", "-p", next(iter(offsets)).hex()).returncode != 0


def test_without_the_midx_the_copy_is_found(repository: GitRepository) -> None:
    small = min(
        (name for name in repository.names("objects/pack/", ".pack")),
        key=lambda name: len(repository.file(name)),
    )
    assert repository.rules(repository.damaged({small: None, NAME: None})) == set()
