"""A repository of real git, damaged in each way that a crash can: which rules find it.

The last promise of the repository stands: what it says must be there.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from crashsim.oracles.git.objects import SHA1
from tests.support.git_repository import GIT_DIR, GitRepository


@pytest.fixture(scope="module")
def loose(tmp_path_factory: pytest.TempPathFactory) -> GitRepository:
    """All objects loose, refs loose, two stash entries, an index with an uncommitted file."""
    repository = GitRepository(tmp_path_factory.mktemp("loose"))
    repository.init()
    repository.commit()
    repository.commit()
    repository.git("tag", "--annotate", "v1", "--message", "tag")
    repository.stash()
    repository.stash()
    repository.git("branch", "side", "HEAD~1")
    repository.make_files(1)
    repository.git("add", ".")
    repository.git("hash-object", "-w", "--stdin", stdin=b"unreachable\n")
    repository.promise("all of it")
    return repository


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> GitRepository:
    """All objects in one pack with .rev and .bitmap, all refs packed, a commit-graph."""
    repository = GitRepository(tmp_path_factory.mktemp("packed"))
    repository.init()
    for _ in range(3):
        repository.commit()
    repository.git("tag", "--annotate", "v1", "--message", "tag")
    repository.git("-c", "pack.writeReverseIndex=true", "repack", "-adbq")
    repository.git("pack-refs", "--all", "--prune")
    repository.git("commit-graph", "write", "--reachable")
    repository.promise("packed")
    return repository


@pytest.fixture(scope="module")
def two_packs(tmp_path_factory: pytest.TempPathFactory) -> GitRepository:
    """Two packs under a multi-pack-index."""
    repository = GitRepository(tmp_path_factory.mktemp("two-packs"))
    repository.init()
    for _ in range(2):
        repository.commit()
        repository.git("repack", "-dq")
    repository.git("multi-pack-index", "write")
    repository.promise("two packs")
    return repository


def empty(_: bytes) -> bytes:
    return b""


def nul(content: bytes) -> bytes:
    return bytes(len(content))


def torn(content: bytes) -> bytes:
    return content[: len(content) // 2]


def flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def zero_tail(content: bytes) -> bytes:
    return content[:-30] + bytes(30)


def last_flipped(content: bytes) -> bytes:
    return content[:-1] + bytes([content[-1] ^ 1])


def of_version_3(content: bytes) -> bytes:
    """A pack version that git reads, too: only the checksum tells."""
    return content[:7] + b"\3" + content[8:]


def with_objects_swapped(content: bytes) -> bytes:
    """A .rev file whose checksum fits."""
    body = content[:12] + content[16:20] + content[12:16] + content[20:-20]
    return body + SHA1.digest(body)


def with_tag_peeled_wrongly(content: bytes) -> bytes:
    start = content.index(b"^") + 1
    return content[:start] + content[start : start + 40][::-1] + content[start + 40 :]


def with_refs_swapped(content: bytes) -> bytes:
    header, first, second, rest = content.split(b"\n", 3)
    return b"\n".join([header, second, first, rest])


def gone(_: bytes) -> None:
    return None


Change = Callable[[bytes], bytes | None]


def check(repository: GitRepository, name: str, change: Change, expected: str) -> None:
    tree = repository.damaged({name: change(repository.file(name))})
    assert repository.rules(tree) == set(expected.split())


HEAD_LOST = "repository-unrecognised head-lost"
LOOSE_TABLE: list[tuple[str, Change, str]] = [
    ("HEAD", empty, HEAD_LOST),
    ("HEAD", nul, HEAD_LOST),
    ("HEAD", gone, HEAD_LOST),
    ("HEAD", lambda content: content[:3], HEAD_LOST),
    ("HEAD", torn, "head-unknown"),
    ("HEAD", lambda _: b"ref: refs/heads/side\n", "head-unknown"),
    ("HEAD", lambda _: b"ref: refs/heads/none\n", "head-unknown"),
    ("refs/heads/main", empty, "ref-empty ref-lost"),
    ("refs/heads/main", nul, "ref-zeroed ref-lost"),
    ("refs/heads/main", torn, "ref-corrupt ref-lost"),
    ("refs/heads/main", gone, "ref-lost"),
    ("refs/heads/main", lambda _: b"1" * 40 + b"\n", "ref-unknown ref-object-missing"),
    ("refs/stash", empty, "ref-empty ref-lost stash-lost"),
    ("refs/stash", gone, "ref-lost stash-lost"),
    ("logs/refs/stash", empty, "stash-lost reflog-lost"),
    ("logs/refs/stash", gone, "stash-lost reflog-lost"),
    ("logs/refs/stash", nul, "stash-lost reflog-lost reflog-cut-off"),
    ("logs/refs/stash", lambda content: content[:-5], "stash-lost reflog-lost reflog-cut-off"),
    ("logs/HEAD", empty, "reflog-lost"),
    ("logs/HEAD", lambda content: content + bytes(40), "reflog-cut-off"),
    ("logs/HEAD", lambda content: content[:-5], "reflog-lost reflog-cut-off"),
    ("logs/HEAD", lambda content: b"\n" + content, "reflog-corrupt"),
    ("index", empty, "index-empty index-lost"),
    ("index", nul, "index-zeroed index-lost"),
    ("index", torn, "index-corrupt index-lost"),
    ("index", flipped, "index-corrupt index-lost"),
    ("index", gone, "index-lost"),
    ("index", lambda content: content[:-20] + bytes(20), ""),  # index.skipHash
    ("config", empty, "config-lost"),
    ("config", gone, "config-lost"),
    ("config", nul, "config-unreadable config-lost"),
    ("config", lambda content: content + b"[core", "config-unreadable config-lost"),
    ("config", lambda content: content + b"[core]\n\tx = y\n", "config-unknown"),
    (
        "config",
        lambda _: b"[core]\n\trepositoryformatversion = x\n",
        "config-unreadable config-unknown",
    ),
]


@pytest.mark.parametrize(("name", "change", "expected"), LOOSE_TABLE)
def test_single_files(loose: GitRepository, name: str, change: Change, expected: str) -> None:
    check(loose, name, change, expected)


OBJECTS = [
    ("HEAD", "ref"),
    ("HEAD^{tree}", "ref"),
    ("HEAD:d1/f1", "ref"),
    ("v1", "ref"),
    ("stash@{1}", "stash"),
    ("stash@{1}^3", "stash"),
    ("unstaged", "index"),
]
DAMAGES: list[tuple[Change, str]] = [
    (empty, "{root}-object-empty poisoned-object"),
    (nul, "{root}-object-zeroed poisoned-object"),
    (torn, "{root}-object-corrupt poisoned-object"),
    (flipped, "{root}-object-corrupt poisoned-object"),
    (lambda content: content + b"x", "{root}-object-corrupt poisoned-object"),
    (gone, "{root}-object-missing"),
]


@pytest.mark.parametrize(("change", "expected"), DAMAGES)
@pytest.mark.parametrize(("name", "root"), OBJECTS)
def test_objects(loose: GitRepository, name: str, root: str, change: Change, expected: str) -> None:
    if name == "unstaged":
        oid = loose.git("rev-parse", f":{loose.git('diff', '--cached', '--name-only')}")
    else:
        oid = loose.git("rev-parse", name)
    check(loose, loose.loose_path(oid), change, expected.format(root=root))


def test_object_under_another_name(loose: GitRepository) -> None:
    first, second = (loose.loose_path(loose.git("rev-parse", name)) for name in ("HEAD", "HEAD~1"))
    tree = loose.damaged({first: loose.file(second)})
    assert loose.rules(tree) == {"ref-object-corrupt", "poisoned-object"}


def test_unreachable_object_is_poison(loose: GitRepository) -> None:
    oid = loose.git("hash-object", "--stdin", stdin=b"unreachable\n")
    tree = loose.damaged({loose.loose_path(oid): b""})
    assert loose.rules(tree) == {"poisoned-object"}


def test_cached_tree_and_reflog_objects(tmp_path: Path) -> None:
    repository = GitRepository(tmp_path)
    repository.init()
    repository.commit()
    lost_commit = repository.commit()
    repository.git("reset", "--quiet", "--hard", "HEAD~1")
    repository.make_files(1)
    repository.git("add", ".")
    cached = repository.git("write-tree")
    repository.promise("reset")
    check(repository, repository.loose_path(lost_commit), gone, "reflog-object-missing")
    check(repository, repository.loose_path(cached), gone, "cache-tree-object-missing")


def test_old_value_of_a_reflog_entry(tmp_path: Path) -> None:
    repository = GitRepository(tmp_path)
    repository.init()
    repository.commit()
    dropped = repository.commit()
    repository.git("reset", "--quiet", "--hard", "HEAD~1")
    for name in ("HEAD", "main"):
        repository.git("reflog", "delete", f"{name}@{{1}}")
    repository.promise("entry deleted")
    assert f"{dropped} " in repository.file("logs/HEAD").decode()
    check(repository, repository.loose_path(dropped), gone, "reflog-object-missing")


def test_shallow_and_split_index(tmp_path: Path) -> None:
    repository = GitRepository(tmp_path)
    repository.init()
    first = repository.commit()
    repository.commit()
    (repository.root / GIT_DIR / "shallow").write_text(f"{first}\n")
    repository.git("update-index", "--split-index")
    repository.promise("both")
    assert repository.rules() == set()
    for content in (bytes(41), b"1234\n", first.encode()[:-1]):
        assert repository.rules(repository.damaged({"shallow": content})) == {"shallow-unreadable"}
    (shared,) = repository.names("sharedindex.")
    for change in (empty, nul, torn, gone):
        check(repository, shared, change, "shared-index-missing index-lost")


def test_missing_directories(loose: GitRepository) -> None:
    refs = dict.fromkeys(loose.names("refs/"))
    tree = loose.damaged(refs)
    nodes = {
        path: node for path, node in tree.nodes.items() if not path.startswith("repo/.git/refs")
    }
    assert "repository-unrecognised" in loose.rules(type(tree)(nodes, tree.contents))


def without_options(content: bytes) -> bytes:
    """A bitmap that says nothing of itself: git aborts when it opens one."""
    return content[:6] + bytes(2) + content[8:]


PACKED_TABLE: list[tuple[str, Change, str]] = [
    ("packed-refs", empty, "packed-refs-empty ref-lost"),
    ("packed-refs", nul, "packed-refs-unreadable ref-lost"),
    ("packed-refs", torn, "packed-refs-unreadable ref-lost"),
    ("packed-refs", gone, "ref-lost"),
    ("packed-refs", lambda content: content[: content.index(b"\n") + 1], "ref-lost"),
    ("packed-refs", with_refs_swapped, "packed-refs-corrupt"),
    ("packed-refs", with_tag_peeled_wrongly, "packed-refs-corrupt"),
    ("idx", empty, "pack-index-damaged"),
    ("idx", nul, "pack-index-damaged"),
    ("idx", torn, "pack-index-damaged"),
    ("idx", flipped, "pack-index-damaged"),
    ("idx", last_flipped, "pack-index-damaged"),
    ("pack", last_flipped, "pack-damaged"),
    ("pack", of_version_3, "pack-damaged"),
    ("pack", empty, "pack-damaged"),
    ("pack", nul, "pack-damaged"),
    ("pack", torn, "pack-damaged"),
    ("pack", flipped, "pack-damaged"),
    ("rev", empty, ""),
    ("rev", nul, ""),
    ("rev", torn, ""),
    ("rev", flipped, "rev-wrong"),
    ("rev", zero_tail, "rev-wrong"),
    ("rev", with_objects_swapped, "rev-wrong"),
    ("bitmap", empty, ""),
    ("bitmap", nul, ""),
    ("bitmap", torn, ""),
    ("bitmap", zero_tail, "bitmap-wrong"),
    ("bitmap", without_options, "bitmap-wrong"),
    ("objects/info/commit-graph", empty, ""),
    ("objects/info/commit-graph", nul, ""),
    ("objects/info/commit-graph", torn, ""),
    ("objects/info/commit-graph", flipped, "commit-graph-wrong"),
    ("objects/info/commit-graph", zero_tail, "commit-graph-wrong"),
]
# What the objects of a damaged pack are; those behind the end of a torn one are "empty".
PACKED_OBJECTS: dict[Change, set[str]] = {
    empty: {"empty"},
    nul: {"zeroed"},
    torn: {"corrupt", "empty"},
    flipped: {"corrupt"},
    last_flipped: set(),
    of_version_3: set(),
}


@pytest.mark.parametrize(("name", "change", "expected"), PACKED_TABLE)
def test_packed(packed: GitRepository, name: str, change: Change, expected: str) -> None:
    path = name
    if name in ("idx", "pack", "rev", "bitmap"):
        (path,) = packed.names("objects/pack/", f".{name}")
    rules = packed.rules(packed.damaged({path: change(packed.file(path))}))
    broken_objects = {rule for rule in rules if "-object-" in rule}
    assert rules - broken_objects == set(expected.split())
    kinds = {rule.rpartition("-")[2] for rule in broken_objects}
    if name == "idx":
        assert kinds == {"missing"}
    elif name == "pack":
        assert kinds == PACKED_OBJECTS[change]
    else:
        assert not kinds


@pytest.mark.parametrize("offset", [0, 23, 35], ids=["tree", "parent", "date"])
def test_commit_graph_of_other_commits(packed: GitRepository, offset: int) -> None:
    """Its checksum fits, and one field of one of its three commits is wrong."""
    name = "objects/info/commit-graph"
    content = packed.file(name)
    entry = content.index(b"CDAT")
    start = int.from_bytes(content[entry + 4 : entry + 12], "big")
    for commit in range(3):
        body = bytearray(content[:-20])
        body[start + 36 * commit + offset] ^= 1
        tree = packed.damaged({name: bytes(body) + SHA1.digest(bytes(body))})
        assert packed.rules(tree) == {"commit-graph-wrong"}


@pytest.mark.parametrize("suffix", [".idx", ".pack"])
def test_half_a_pack_is_invisible(packed: GitRepository, suffix: str) -> None:
    (path,) = packed.names("objects/pack/", suffix)
    rules = packed.rules(packed.damaged({path: None}))
    assert "ref-object-missing" in rules
    assert {rule.partition("-object-")[2] for rule in rules} == {"missing"}


def test_good_pack_hides_bad_loose_copy(packed: GitRepository) -> None:
    """git reads the pack first, skips nothing that matters, and the next gc removes the file."""
    path = packed.loose_path(packed.git("rev-parse", "HEAD"))
    assert packed.rules(packed.damaged({path: b""})) == set()


MIDX_TABLE: list[tuple[Change, str]] = [
    (empty, ""),
    (gone, ""),
    (torn, ""),
    (nul, "midx-fatal"),
    (lambda content: content[:4] + b"\0" + content[5:], "midx-fatal"),
    (lambda content: content[:72] + bytes(40) + content[112:], "midx-fatal"),
    (zero_tail, "midx-wrong"),
    (lambda content: content[:-1] + bytes([content[-1] ^ 1]), "midx-wrong"),
]


@pytest.mark.parametrize(("change", "expected"), MIDX_TABLE)
def test_multi_pack_index(two_packs: GitRepository, change: Change, expected: str) -> None:
    check(two_packs, "objects/pack/multi-pack-index", change, expected)


def test_multi_pack_index_of_absent_packs(two_packs: GitRepository) -> None:
    """It is no fault of the midx, but what only the absent pack had is missing."""
    tree = two_packs.damaged(
        {path: None for path in two_packs.names("objects/pack/pack-") if path.endswith(".pack")}
    )
    rules = two_packs.rules(tree)
    assert "ref-object-missing" in rules
    assert not {rule for rule in rules if rule.startswith("midx")}


def test_locks_and_temporary_files_are_tolerated(loose: GitRepository) -> None:
    leftovers = [
        "index.lock", "HEAD.lock", "refs/heads/main.lock", "packed-refs.lock",
        "config.lock", "gc.pid", "objects/tmp_objdir-b-x1/12/tmp_obj_1", "objects/12/tmp_obj_2",
        "objects/pack/tmp_pack_3", "objects/pack/tmp_idx_4", "objects/pack/.tmp-12-pack-1.pack",
        "objects/pack/multi-pack-index.lock", "objects/info/commit-graph.lock",
    ]  # fmt: skip
    assert loose.rules(loose.damaged(dict.fromkeys(leftovers, b""))) == set()


def test_packed_refs_new_is_not(loose: GitRepository) -> None:
    assert loose.rules(loose.damaged({"packed-refs.new": b""})) == {"packed-refs-new-left"}


@pytest.mark.parametrize("name", ["ORIG_HEAD", "MERGE_HEAD"])
def test_broken_pseudoref(loose: GitRepository, name: str) -> None:
    assert loose.rules(loose.damaged({name: bytes(41)})) == {"pseudoref-broken"}


def test_branch_of_a_blob(loose: GitRepository) -> None:
    blob = loose.git("rev-parse", "HEAD:d1/f1")
    rules = loose.rules(loose.damaged({"refs/heads/main": f"{blob}\n".encode()}))
    assert rules == {"ref-wrong-type", "ref-unknown"}
