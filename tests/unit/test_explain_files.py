"""Finding known contents in what was written."""

import hashlib

from crashsim.explain.files import KnownFiles, Piece, Snapshot, Version
from crashsim.machines.tree import Node, NodeKind, Tree
from tests.support.host_tree import changed_tree

LONG = bytes(range(1, 251)) * 40
"""10,000 bytes: two whole pages and a part, without zeroes."""
EMPTY = Tree({})


def known(**files: bytes | None) -> KnownFiles:
    return KnownFiles([Snapshot("prepare", EMPTY), Snapshot("save", changed_tree(EMPTY, files))])


def digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % 4096)


def test_a_small_file_is_found_by_its_padded_page() -> None:
    files = known(small=b"hello\n")

    assert files.find(padded(b"hello\n")) == [Piece(0, digest(b"hello\n"), range(1), 1)]
    assert files.names(digest(b"hello\n")) == ["small"]


def test_a_page_with_something_behind_the_content_is_not_the_file() -> None:
    assert known(small=b"hello\n").find(padded(b"hello\nmore")) == []


def test_pages_that_follow_each_other_are_one_piece() -> None:
    files = known(long=LONG)
    other = padded(b"other")

    found = files.find(other + padded(LONG))

    assert found == [Piece(4096, digest(LONG), range(3), 3)]


def test_a_part_of_a_file_is_found_with_its_place() -> None:
    found = known(long=LONG).find(padded(LONG)[4096:8192])

    assert found == [Piece(0, digest(LONG), range(1, 2), 3)]


def test_pages_of_zeroes_are_nobodys() -> None:
    assert known(zeroes=bytes(5000)).find(bytes(8192)) == []


def test_equal_contents_have_all_their_names() -> None:
    files = known(a=b"same", b=b"same")

    assert files.names(digest(b"same")) == ["a", "b"]
    assert len(files.find(padded(b"same"))) == 1


def test_a_content_that_was_not_collected_is_found_whole_by_its_digest() -> None:
    node = Node(NodeKind.FILE, 0o644, len(LONG), digest(LONG))
    files = KnownFiles([Snapshot("save", Tree({"long": node}))])

    assert files.find(padded(LONG)) == [Piece(0, digest(LONG), range(3), 3)]
    assert files.find(padded(LONG)[:8192]) == []
    assert files.content(digest(LONG)) is None


def test_versions_are_told_apart_by_the_step_that_made_them() -> None:
    first = changed_tree(EMPTY, {"f": b"one"})
    second = changed_tree(first, {"g": b"new"})
    third = changed_tree(second, {"f": b"two"})

    files = KnownFiles(
        [Snapshot("prepare", first), Snapshot("step-1", second), Snapshot("step-2", third)]
    )

    assert files.paths["f"] == [
        Version("f", "prepare", digest(b"one"), 3),
        Version("f", "step-2", digest(b"two"), 3),
    ]
    assert files.paths["g"][0].step == "step-1"
