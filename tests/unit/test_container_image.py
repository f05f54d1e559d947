"""Container images are joined entry by entry, and nothing in them reaches outside."""

import io
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from crashsim.errors import UsageError
from crashsim.workloads import container_root
from crashsim.workloads.container_image import ImageConfig, join_image
from crashsim.workloads.container_root import BadImage
from tests.support.container_images import (
    Layer,
    directory,
    layer_archive,
    link,
    oci_layout,
    saved,
)

LOWER: Layer = {
    "bin": directory("bin"),
    "bin/app": b"old program",
    "data": directory("data", 0o700, uid=999, gid=998),
    "data/seed": b"from the image",
    "gone": b"removed above",
    "etc/passwd": b"root:x:0:0::/:/bin/sh\nredis:x:999:998::/data:/bin/sh\n",
    "etc/group": b"root:x:0:\nstaff:x:50:\n",
}
UPPER: Layer = {
    "bin/app": b"new program",
    ".wh.gone": b"",
    "bin/copy": link("bin/copy", "bin/app", tarfile.LNKTYPE),
    "sh": link("sh", "/bin/app"),
}


def join(
    source: Path, mount_points: Sequence[str] = ()
) -> tuple[ImageConfig, dict[str, tuple[tarfile.TarInfo, bytes]]]:
    buffer = io.BytesIO()
    config = join_image(source, buffer, mount_points)
    buffer.seek(0)
    with tarfile.open(fileobj=buffer) as archive:
        return config, {
            one.name: (one, archive.extractfile(one).read() if one.isreg() else b"")  # type: ignore[union-attr]
            for one in archive
        }


@pytest.mark.parametrize("write", [saved, oci_layout])
def test_layers_are_put_on_top_of_each_other(tmp_path: Path, write: Callable[..., Path]) -> None:
    image = write(tmp_path / "image", [LOWER, UPPER], Entrypoint=["/bin/app"], Cmd=["serve"])
    config, root = join(image)

    assert (config.entrypoint, config.command) == (("/bin/app",), ("serve",))
    assert root["bin/app"][1] == b"new program"
    assert root["data/seed"][1] == b"from the image"
    assert "gone" not in root
    assert not [name for name in root if ".wh." in name]
    assert (root["data"][0].uid, root["data"][0].gid, root["data"][0].mode) == (999, 998, 0o700)
    assert root["sh"][0].linkname == "/bin/app"
    assert root["bin/copy"][0].islnk()
    assert [*root].index("bin/copy") > [*root].index("bin/app")


def test_an_opaque_directory_hides_what_lies_below_and_not_what_lies_beside(
    tmp_path: Path,
) -> None:
    upper: Layer = {"data/new": b"1", "data/.wh..wh..opq": b""}
    _, root = join(saved(tmp_path / "image", [LOWER, upper]))

    assert {name for name in root if name.startswith("data")} == {"data", "data/new"}
    assert "bin/app" in root


def test_a_file_in_the_place_of_a_directory_takes_its_content_away(tmp_path: Path) -> None:
    _, root = join(saved(tmp_path / "image", [LOWER, {"data": b"now a file"}]))

    assert {name for name in root if name.startswith("data")} == {"data"}


def test_a_root_directory_is_an_image(tmp_path: Path) -> None:
    (tmp_path / "root/bin").mkdir(parents=True)
    (tmp_path / "root/bin/app").write_bytes(b"program")
    (tmp_path / "root/bin/app").chmod(0o755)
    (tmp_path / "root/link").symlink_to("/etc/passwd")
    config, root = join(tmp_path / "root", ["/data/volume"])

    assert config == ImageConfig()
    assert root["bin/app"][0].mode == 0o755
    assert root["link"][0].linkname == "/etc/passwd"  # and not what the host has there
    assert root["data/volume"][0].isdir()


@pytest.mark.parametrize(
    ("user", "numbers"),
    [
        ("", "0:0"),
        ("redis", "999:998"),
        ("redis:staff", "999:50"),
        ("7", "7:0"),
        ("7:staff", "7:50"),
        ("7:8", "7:8"),
    ],
)
def test_users_are_looked_up_in_the_image(tmp_path: Path, user: str, numbers: str) -> None:
    config, _ = join(saved(tmp_path / "image", [LOWER], User=user))

    assert config.user == numbers


@pytest.mark.parametrize(
    "layer",
    [
        {"../outside": b"1"},
        {"a/../../outside": b"1"},
        {"x": link("x", "../outside", tarfile.LNKTYPE)},
        {"x": link("x", "/etc/shadow", tarfile.LNKTYPE)},
        {"x": link("x", "/etc"), "x/passwd": b"through the link"},
    ],
)
def test_nothing_reaches_outside(tmp_path: Path, layer: Layer) -> None:
    with pytest.raises(BadImage, match=r"outside|not in the image|no directory"):
        join(saved(tmp_path / "image", [layer]))


def test_a_blob_is_not_read_from_elsewhere(tmp_path: Path) -> None:
    layout = oci_layout(tmp_path / "image", [LOWER])
    (tmp_path / "secret").write_bytes(layer_archive({"stolen": b"1"}))
    blob = max((layout / "blobs/sha256").iterdir(), key=lambda path: path.stat().st_size)
    blob.unlink()
    blob.symlink_to(tmp_path / "secret")

    with pytest.raises(BadImage, match="has no file blobs/"):
        join(layout)


def test_devices_are_left_out(tmp_path: Path) -> None:
    device = tarfile.TarInfo("dev/sda")
    device.type, device.devmajor, device.devminor = tarfile.BLKTYPE, 8, 0
    _, root = join(saved(tmp_path / "image", [{**LOWER, "dev/sda": device}]))

    assert "dev/sda" not in root


def test_what_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container_root, "CONTENT_BYTES_MAX", 1 << 20)

    with pytest.raises(BadImage, match="1 MiB"):
        join(saved(tmp_path / "image", [{"big": bytes((1 << 20) + 1)}]))


def test_a_volume_that_is_a_link_is_refused(tmp_path: Path) -> None:
    image = saved(tmp_path / "image", [{"data": link("data", "/elsewhere")}])

    with pytest.raises(BadImage, match="/data is no directory"):
        join(image, ["/data"])


@pytest.mark.parametrize(
    "content", [b"", b"no archive", layer_archive({"readme": b"no image"}), b"\x1f\x8bbroken"]
)
def test_what_is_no_image_is_told_in_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "image").write_bytes(content)

    with pytest.raises(UsageError) as refused:
        join(tmp_path / "image")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "manifest", [b"[]", b"{}", b"[{}, {}]", b'[{"Config": 3, "Layers": 4}]', b"[", b"[[[["]
)
def test_nonsense_for_a_manifest_is_refused(tmp_path: Path, manifest: bytes) -> None:
    (tmp_path / "image").write_bytes(layer_archive({"manifest.json": manifest}))

    with pytest.raises(BadImage):
        join(tmp_path / "image")
