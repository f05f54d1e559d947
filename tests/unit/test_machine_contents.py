"""Trees from what a guest says: believed only where it can be true."""

import base64
from hashlib import blake2b

import msgspec
import pytest

from crashsim.machines import contents as contents_module
from crashsim.machines.channel import Content
from crashsim.machines.contents import ContentCache, Row, TreeAnswer, UntrueTree
from crashsim.machines.tree import Node, NodeKind


def digest(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()


def content(data: bytes, last: bool = True, name: str | None = None) -> Content:
    encoded = base64.b64encode(data).decode("ascii")
    return Content(digest(data) if name is None else name, encoded, last)


ABC = digest(b"abc")


def test_a_tree_has_its_nodes_in_order_and_its_contents() -> None:
    cache = ContentCache()
    cache.take(content(b"abc"))
    rows: list[Row] = [
        ("d/f", "f", 0o644, 3, ABC),
        ("link", "l", 0o777, 0, digest(b"d")),
        ("d", "d", 0o755, 0, ""),
        ("\u00ff", "o", 0o600, 0, ""),
        ("broken", "f", 0o600, 9, "error:EIO"),
    ]

    tree = cache.tree(rows, [""])

    assert list(tree.nodes) == ["broken", "d", "d/f", "link", "\udcff"]
    assert tree.nodes["d/f"] == Node(NodeKind.FILE, 0o644, 3, ABC)
    assert tree.read("d/f") == b"abc"
    assert tree.read("broken") is None


@pytest.mark.parametrize(
    "row",
    [
        ("/etc/passwd", "f", 0, 0, ""),
        ("../up", "o", 0, 0, ""),
        ("a/../b", "o", 0, 0, ""),
        ("..", "d", 0, 0, ""),
        (".", "d", 0, 0, ""),
        ("", "d", 0, 0, ""),
        ("a//b", "o", 0, 0, ""),
        ("a/", "d", 0, 0, ""),
        ("a\0b", "o", 0, 0, ""),
        ("\u0100", "o", 0, 0, ""),
        ("a", "x", 0, 0, ""),
        ("a", "o", 0o10000, 0, ""),
        ("a", "o", 0, 0, "zz"),
        ("a", "o", 0, 0, "error:eio"),
        ("a", "o", 0, 0, ABC + "\n"),
        ("nowhere/a", "o", 0, 0, ""),
        ("a", "f", 0, 3, ABC),
        ("file/a", "o", 0, 0, ""),
    ],
    ids=repr,
)
def test_what_cannot_be_is_not_believed(row: Row) -> None:
    rows: list[Row] = [("file", "f", 0o644, 0, "error:EIO"), row]
    with pytest.raises(UntrueTree):
        ContentCache().tree(rows, [""])


def test_a_path_is_there_once() -> None:
    with pytest.raises(UntrueTree):
        ContentCache().tree([("a", "d", 0, 0, ""), ("a", "d", 0, 0, "")], [])


def test_a_content_may_only_be_missing_where_none_was_asked_for() -> None:
    rows: list[Row] = [("a", "d", 0, 0, ""), ("a/f", "f", 0o644, 3, ABC)]

    assert ContentCache().tree(rows, ["b", "a/g"]).read("a/f") is None
    for prefix in ("", "a", "a/f"):
        with pytest.raises(UntrueTree, match="a/f"):
            ContentCache().tree(rows, [prefix])


def test_contents_come_in_pieces_and_are_hashed_again() -> None:
    cache = ContentCache()
    cache.take(content(b"ab", last=False, name=ABC))
    assert ABC not in cache.by_digest
    cache.take(content(b"c", name=ABC))

    assert cache.by_digest == {ABC: b"abc"}
    with pytest.raises(UntrueTree, match=ABC):
        cache.take(content(b"other", name=ABC))
    with pytest.raises(UntrueTree):
        cache.take(Content(ABC, "*", True))


def test_half_a_content_is_forgotten_with_its_request() -> None:
    cache = ContentCache()
    cache.take(content(b"x", last=False, name=ABC))
    cache.start()
    cache.take(content(b"abc"))

    assert cache.by_digest == {ABC: b"abc"}


def test_both_sides_forget_when_there_is_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents_module, "KEPT_BYTES_MAX", 4)
    cache = ContentCache()
    cache.take(content(b"abc"))
    assert not cache.start()
    tree = cache.tree([("f", "f", 0o644, 3, ABC)], [""])
    cache.take(content(b"defg"))

    assert cache.start()
    assert cache.by_digest == {}
    assert tree.read("f") == b"abc"  # a tree keeps what it has
    assert not cache.start()


@pytest.mark.parametrize(
    "rows",
    [
        b'[["a","d",-1,0,""]]',
        b'[["a","d",0,-1,""]]',
        b'[["a","d",0,9223372036854775808,""]]',
        b'[["a","d",0,0]]',
        b'[["a","d",0,0,"",1]]',
        b'["a"]',
        b"{}",
    ],
)
def test_rows_of_another_shape_are_refused(rows: bytes) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"rows":' + rows + b"}", type=TreeAnswer)
