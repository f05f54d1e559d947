"""The agent's reading of trees, on directories of this host."""

import os
from hashlib import blake2b
from pathlib import Path

import pytest

from crashsim.machines.agent import trees


def digest(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()


def read(
    root: Path,
    exclude: tuple[bytes, ...] = (),
    collect: tuple[bytes, ...] = (b"",),
    sent: set[str] | None = None,
) -> tuple[dict[str, tuple[str, int, int, str]], dict[str, bytes]]:
    pieces: dict[str, list[bytes]] = {}
    whole: dict[str, bytes] = {}

    def emit(name: str, piece: bytes, last: bool) -> None:
        assert name not in whole, "sent again"
        pieces.setdefault(name, []).append(piece)
        if last:
            whole[name] = b"".join(pieces[name])

    rows = trees.read_tree(
        os.fsencode(root), exclude, collect, set() if sent is None else sent, emit
    )
    assert pieces.keys() == whole.keys()
    return {os.fsdecode(path): tuple(rest) for path, *rest in rows}, whole  # type: ignore[misc]


def test_every_kind_of_node(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir(mode=0o700)
    (tmp_path / "d" / "file").write_bytes(b"abc")
    (tmp_path / "d" / "file").chmod(0o4711)
    (tmp_path / "link").symlink_to("d/file")
    os.mkfifo(tmp_path / "pipe", 0o600)

    nodes, contents = read(tmp_path)

    assert nodes == {
        "d": ("d", 0o700, 0, ""),
        "d/file": ("f", 0o4711, 3, digest(b"abc")),
        "link": ("l", 0o777, 0, digest(b"d/file")),
        "pipe": ("o", 0o600, 0, ""),
    }
    assert contents == {digest(b"abc"): b"abc"}


@pytest.mark.parametrize(
    "size",
    [0, 1, trees.SMALL_BYTES - 1, trees.SMALL_BYTES, trees.CHUNK_BYTES, 2 * trees.CHUNK_BYTES + 5],
)
def test_contents_of_any_size_are_hashed_and_sent(tmp_path: Path, size: int) -> None:
    data = os.urandom(size)
    (tmp_path / "file").write_bytes(data)

    nodes, contents = read(tmp_path)

    assert nodes["file"] == ("f", 0o644, size, digest(data))
    assert contents == {digest(data): data}


def test_contents_are_sent_once(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(b"same")
    sent: set[str] = set()

    assert read(tmp_path, sent=sent)[1] == {digest(b"same"): b"same"}
    assert read(tmp_path, sent=sent)[1] == {}


def test_prefixes_end_at_slashes(tmp_path: Path) -> None:
    for name in ("a/x", "ab/x", "c"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())

    nodes, contents = read(tmp_path, exclude=(b"a",), collect=(b"c",))

    assert sorted(nodes) == ["ab", "ab/x", "c"]
    assert list(contents.values()) == [b"c"]
    assert sorted(read(tmp_path, collect=(b"ab/x", b"nothing"))[1].values()) == [b"ab/x"]


def test_what_cannot_be_read_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "dir").mkdir()
    real_open, real_scandir = os.open, os.scandir

    def broken_open(path: bytes, *rest: int) -> int:
        if path.endswith(b"/file"):
            raise OSError(5, "Input/output error")
        return real_open(path, *rest)

    def broken_scandir(path: bytes) -> object:
        if path.endswith(b"/dir"):
            raise OSError(117, "Structure needs cleaning")
        return real_scandir(path)

    monkeypatch.setattr(os, "open", broken_open)
    monkeypatch.setattr(os, "scandir", broken_scandir)
    nodes, contents = read(tmp_path)

    assert nodes["file"] == ("f", 0o644, 1, "error:EIO")
    assert nodes["dir"] == ("d", 0o755, 0, "error:EUCLEAN")
    assert contents == {}


def test_a_file_that_changes_meanwhile_is_an_error_and_no_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"x" * 10)
    real_open = os.open

    def growing_open(path: bytes, *rest: int) -> int:
        with open(path, "ab") as file:
            file.write(b"more")
        return real_open(path, *rest)

    monkeypatch.setattr(os, "open", growing_open)
    with pytest.raises(trees.ContentChanged):
        read(tmp_path)


def test_a_large_file_that_changes_meanwhile_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(bytes(trees.SMALL_BYTES))
    real_open = os.open

    def shrinking_open(path: bytes, *rest: int) -> int:
        os.truncate(path, trees.SMALL_BYTES - 1)
        return real_open(path, *rest)

    monkeypatch.setattr(os, "open", shrinking_open)
    with pytest.raises(trees.ContentChanged):
        read(tmp_path)


def test_many_files_are_read_in_batches_and_none_stays_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trees, "BATCH_FILES", 7)
    for number in range(50):
        (tmp_path / f"{number}").write_bytes(b"%d" % number)
    before = os.listdir("/proc/self/fd")

    nodes, contents = read(tmp_path)

    assert {name: node[3] for name, node in nodes.items()} == {
        f"{number}": digest(b"%d" % number) for number in range(50)
    }
    assert sorted(contents.values()) == sorted(b"%d" % number for number in range(50))
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_a_missing_root_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "nowhere")
