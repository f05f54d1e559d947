"""The cpio writer, held to the format by a reader that is as strict as the kernel."""

import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from crashsim.machines.images import cpio
from tests.support.cpio_archive import Member, read_archive


def test_what_is_written_is_read_back() -> None:
    data = cpio.archive(
        [
            cpio.file("bin/tool", b"odd", 0o755),
            cpio.symlink("bin/alias", b"/absolute/../target"),
            cpio.directory("empty", 0o1777),
            cpio.Entry("dev/console", stat.S_IFCHR | 0o600, device=(5, 1)),
            cpio.file("name with\nnew line \udcff", b""),
        ]
    )
    assert read_archive(data) == {
        "bin": Member(stat.S_IFDIR | 0o755, b""),
        "bin/tool": Member(stat.S_IFREG | 0o755, b"odd"),
        "bin/alias": Member(stat.S_IFLNK | 0o777, b"/absolute/../target"),
        "dev": Member(stat.S_IFDIR | 0o755, b""),
        "dev/console": Member(stat.S_IFCHR | 0o600, b"", (5, 1)),
        "empty": Member(stat.S_IFDIR | 0o1777, b""),
        "name with\nnew line \udcff": Member(stat.S_IFREG | 0o644, b""),
    }


@pytest.mark.parametrize("length", range(5))
def test_any_length_is_padded_so_that_archives_can_follow_one_another(length: int) -> None:
    first = cpio.archive([cpio.file("a" * (length + 1), b"x" * length)])
    second = cpio.archive([cpio.file("second", b"y")])
    members = read_archive(first + second)
    assert members["a" * (length + 1)].content == b"x" * length
    assert members["second"].content == b"y"


def test_names_of_one_file_share_its_content_whichever_comes_first() -> None:
    content = b"x" * 1000
    entries = [cpio.hard_link("a", "m"), cpio.file("m", content, 0o755), cpio.hard_link("z", "m")]
    data = cpio.archive([*entries, cpio.file("other", content)])
    three = Member(stat.S_IFREG | 0o755, content, links=3)
    assert read_archive(data) == {
        **dict.fromkeys("amz", three),
        "other": Member(stat.S_IFREG | 0o644, content),
    }
    assert len(data) < 3000


@pytest.mark.parametrize("target", ["missing", "directory", "symlink", "link"])
def test_hard_links_to_what_is_no_file_are_refused(target: str) -> None:
    others = [
        cpio.directory("directory"),
        cpio.symlink("symlink", b"file"),
        cpio.file("file", b""),
        cpio.hard_link("link", "file"),
    ]
    with pytest.raises(ValueError, match=f"links to '{target}'"):
        cpio.archive([*others, cpio.hard_link("name", target)])


def test_order_of_entries_does_not_matter() -> None:
    entries = [cpio.file("a/b", b"1"), cpio.file("a-b", b"2"), cpio.directory("a", 0o700)]
    data = cpio.archive(entries)
    assert data == cpio.archive(reversed(entries))
    assert read_archive(data)["a"].mode == stat.S_IFDIR | 0o700


@pytest.mark.parametrize("path", ["", "/etc", "a/../b", "..", "a//b", "a/", "nul\0", "TRAILER!!!"])
def test_paths_that_lead_elsewhere_are_refused(path: str) -> None:
    with pytest.raises(ValueError, match="cpio"):
        cpio.archive([cpio.file(path, b"")])


def test_one_path_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="two entries"):
        cpio.archive([cpio.file("a", b"1"), cpio.file("a", b"2")])


@pytest.mark.skipif(shutil.which("cpio") is None, reason="no cpio on this host")
def test_gnu_cpio_unpacks_it(tmp_path: Path) -> None:
    data = cpio.archive(
        [
            cpio.file("d/f", b"content", 0o640),
            cpio.symlink("d/l", b"f"),
            cpio.hard_link("d/h", "d/f"),
        ]
    )
    subprocess.run(
        ["cpio", "-i", "--quiet", "--no-absolute-filenames"], input=data, cwd=tmp_path, check=True
    )
    assert (tmp_path / "d" / "l").read_bytes() == b"content"
    assert (tmp_path / "d" / "h").samefile(tmp_path / "d" / "f")
    assert stat.S_IMODE((tmp_path / "d" / "f").stat().st_mode) == 0o640
