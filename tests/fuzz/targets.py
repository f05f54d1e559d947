"""What is fuzzed: every parser of what lies on a disk, raw and with its checksum made right.

A target takes bytes. It ends well if it returns, or raises a StoreError: the clear error. Anything
else is a finding: another exception, a hang, more memory than the limit.
"""

import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from impl.config_syntax import locate_entries, parse_configuration
from impl.errors import CorruptObject
from impl.index_entry import IndexEntry, StatData
from impl.index_format import format_index, parse_index
from impl.index_split import merge_split
from impl.index_trees import CachedTree
from impl.objects import loose
from impl.objects.bitmap import decode_bitmap, encode_bitmap
from impl.objects.bitmap_build import build_bitmap
from impl.objects.delta import apply_delta
from impl.objects.hashes import SHA1
from impl.objects.idx import PackIndex
from impl.objects.midx import MultiPackIndex, encode_midx
from impl.objects.midx_build import choose_entries, indexed
from impl.objects.model import format_tree, parse_commit, parse_tag, parse_tree
from impl.objects.pack_scan import PackScan
from impl.objects.packs import PackStore
from impl.objects.rev import decode_reverse_index, encode_reverse_index
from impl.refs.files.loose import parse_loose
from impl.refs.files.packed import parse_packed_refs
from impl.refs.reftable.layout import Header
from impl.refs.reftable.source import MemorySource
from impl.refs.reftable.table import Table, check_table
from impl.refs.reftable.writer import encode_table
from tests.support.pack_samples import FrozenFiles, MadePack, sealed
from tests.support.refs_repository import sample_records

NAME = "17" * SHA1.size_bytes
COMMIT = (
    f"tree {NAME}\nparent {NAME}\nauthor A <a@example.org> 1700000000 +0130\n"
    "committer C <c@example.org> 1700000000 +0000\n\nmessage\n"
).encode()
TAG = f"object {NAME}\ntype commit\ntag v1\ntagger A <a@e> 1700000000 +0000\n\ntext\n".encode()
PACKED_REFS = (
    "# pack-refs with: peeled fully-peeled sorted \n"
    f"{NAME} refs/heads/main\n{NAME} refs/tags/v1\n^{NAME}\n"
).encode()
CONFIG = b'[core]\n\tbare = false # no\n[remote "o\\"x"]\n\turl = "a b" \\\n c\n[a.b]\nflag\n'


class Target(NamedTuple):
    """One parser.

    :ivar parse: what is called with the bytes.
    :ivar samples: valid files to start from.
    :ivar has_checksum: the last 20 bytes are one; without making it right nothing gets past it.
    """

    parse: Callable[[bytes], object]
    samples: Sequence[bytes]
    has_checksum: bool = False

    def __call__(self, data: bytes) -> None:
        """Parse as a disk may leave it, then as an attacker would make it. Raises StoreError."""
        if self.has_checksum and len(data) > SHA1.size_bytes:
            data = sealed(data, SHA1)
        self.parse(data)


def _index(data: bytes) -> None:
    parsed = parse_index(data, SHA1, "index")
    if parsed.link is not None:
        merge_split(_ENTRIES, parsed.entries, parsed.link, "index")
        return
    again = parse_index(
        format_index(parsed.entries, SHA1, version=4, trees=parsed.trees), SHA1, "again"
    )
    assert [entry.key for entry in again.entries] == [entry.key for entry in parsed.entries]


_ENTRIES = [IndexEntry(path, 0o100644, NAME, StatData(1, 2, 3, 4)) for path in (b"a", b"d/e")]
_SYMLINK = IndexEntry(b"d/link", 0o120000, NAME, skip_worktree=True)


def _index_samples() -> list[bytes]:
    trees = CachedTree()
    entries = [*_ENTRIES, _SYMLINK]
    plain = [format_index(_ENTRIES, SHA1, version=version) for version in (2, 4)]
    return [*plain, format_index(entries, SHA1, version=3, trees=trees)]


def _pack(data: bytes) -> None:
    for scanned in PackScan(data, SHA1, "pack", lambda name: None).objects():
        assert len(scanned.name) == SHA1.size_bytes


def _pack_index(data: bytes) -> None:
    index = PackIndex(data, SHA1, "idx")
    for position in range(min(index.count, 100)):
        name = index.names.name_at(position)
        index.names.find(name)
    assert len(index.entries()) == len(index.by_offset) == index.count


def _multi_pack_index(data: bytes) -> None:
    midx = MultiPackIndex(data, SHA1, "midx")
    for position in range(min(midx.count, 100)):
        midx.names.find(midx.names.name_at(position))
        midx.place_at(position)


def _tables() -> list[bytes]:
    header = Header(512, 7, 7, SHA1)
    return [encode_table(header, *sample_records(count, SHA1.size_bytes)) for count in (1, 40)]


def _reftable(data: bytes) -> None:
    table = Table("table", MemorySource(data))
    check_table(table)
    table.ref(b"refs/heads/b000007")
    list(table.logs_of(b"refs/heads/b000005"))


def _loose(data: bytes) -> None:
    for stream in (data, zlib.compress(data, 1)):
        try:
            loose.inflate(stream, NAME, SHA1)
        except CorruptObject:
            continue
        raise AssertionError("an object whose name nobody can have hit")


def _tree(data: bytes) -> None:
    entries = parse_tree(data, NAME, SHA1)
    # Not the same bytes: a mode may have zeros in front, and the order may be another.
    assert sorted(parse_tree(format_tree(entries), NAME, SHA1)) == sorted(entries)


def _config(data: bytes) -> None:
    entries = list(parse_configuration(data, "config"))
    assert all("." in key for key, _ in entries)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return
    list(locate_entries(text, "config"))


def targets() -> Mapping[str, Target]:
    """All of them, by name."""
    packs = [MadePack([b"text %d\n" % number * 9 for number in range(7)], SHA1)]
    pack = packs[0]
    store = PackStore(FrozenFiles(pack.files()), "objects", SHA1)
    names = [entry.name for entry in pack.entries]
    bitmap = build_bitmap(
        names, dict.fromkeys(names, "blob"), {}, lambda name: (), frozenset(), pack.checksum
    )
    bitmap = bitmap._replace(reachable={0: 0b101, 3: 0b1111111})
    count = len(names)
    midx = encode_midx(*choose_entries([indexed(each) for each in store.packs()]), SHA1)
    rev = encode_reverse_index(range(count), pack.checksum, SHA1)
    return {
        "index": Target(_index, _index_samples(), has_checksum=True),
        "pack": Target(_pack, [pack.pack], has_checksum=True),
        "idx": Target(_pack_index, [pack.index], has_checksum=True),
        "rev": Target(
            lambda data: decode_reverse_index(data, count, pack.checksum, SHA1, "rev"),
            [rev],
            has_checksum=True,
        ),
        "bitmap": Target(
            lambda data: decode_bitmap(data, count, pack.checksum, SHA1, "bitmap"),
            [encode_bitmap(bitmap, SHA1)],
            has_checksum=True,
        ),
        "midx": Target(_multi_pack_index, [midx], has_checksum=True),
        "delta": Target(lambda data: apply_delta(b"base " * 20, data), [b"\x64\x05\x90\x05"]),
        "reftable": Target(_reftable, _tables()),
        "loose": Target(_loose, [loose.deflate("blob", b"content"), b"blob 7\0content"]),
        "tree": Target(_tree, [b"100644 a\0" + bytes(20) + b"40000 d\0" + bytes(20)]),
        "commit": Target(lambda data: parse_commit(data, NAME, SHA1), [COMMIT]),
        "tag": Target(lambda data: parse_tag(data, NAME, SHA1), [TAG]),
        "packed-refs": Target(lambda data: parse_packed_refs(data, SHA1, "packed"), [PACKED_REFS]),
        "ref": Target(
            lambda data: parse_loose(data, "refs/heads/main", SHA1),
            [NAME.encode() + b"\n", b"ref: refs/heads/main\n"],
        ),
        "config": Target(_config, [CONFIG]),
    }
