"""The cache of guest images: damage is noticed, removal is whole."""

import json
from pathlib import Path

import pytest

from crashsim.errors import InfrastructureError
from crashsim.machines.images import cache, list_images, remove_image
from crashsim.machines.images.cache import ImageDamaged, NoSuchImage, load_image, verify_image
from tests.support.image_cache import install_image


@pytest.fixture(autouse=True)
def cache_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CRASHSIM_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_an_image_is_found_as_it_was_published() -> None:
    digest = install_image()
    image = load_image(digest)
    assert image is not None
    verify_image(image)
    assert image.rootfs.read_bytes() == b"root file system"
    assert image.kernel_release == "6.12.0"
    assert image.manifest.packages == {"git": "1:2.47"}
    assert [each.digest for each in list_images()] == [digest]


def test_an_empty_cache_has_no_images(cache_directory: Path) -> None:
    assert list_images() == []
    assert load_image("0" * 32) is None
    assert not cache_directory.exists()


def test_unfinished_work_is_no_image(cache_directory: Path) -> None:
    digest = install_image()
    (cache_directory / "images" / ".building-other").mkdir()
    assert cache.image_digests() == [digest]


@pytest.mark.parametrize("name", [cache.ROOTFS, cache.KERNEL, cache.INITRAMFS])
def test_a_file_of_another_size_is_noticed_at_once(cache_directory: Path, name: str) -> None:
    digest = install_image()
    path = cache_directory / "images" / digest / name
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ImageDamaged, match=rf"{name}.*crashsim image rm {digest[:12]}"):
        load_image(digest)


@pytest.mark.parametrize("name", [cache.ROOTFS, cache.KERNEL, cache.INITRAMFS, cache.MANIFEST])
def test_a_missing_file_is_noticed(cache_directory: Path, name: str) -> None:
    digest = install_image()
    (cache_directory / "images" / digest / name).unlink()
    with pytest.raises(ImageDamaged, match="crashsim image rm"):
        load_image(digest)


def test_changed_content_of_the_same_size_is_noticed_by_verifying(cache_directory: Path) -> None:
    digest = install_image(rootfs=b"good")
    (cache_directory / "images" / digest / cache.ROOTFS).write_bytes(b"evil")
    image = load_image(digest)
    assert image is not None
    with pytest.raises(ImageDamaged, match="content"):
        verify_image(image)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"digest": 1}'])
def test_a_manifest_that_is_none_is_damage(cache_directory: Path, text: str) -> None:
    digest = install_image()
    (cache_directory / "images" / digest / cache.MANIFEST).write_text(text)
    with pytest.raises(ImageDamaged, match=cache.MANIFEST):
        load_image(digest)


def test_a_manifest_cannot_lead_out_of_its_image(cache_directory: Path) -> None:
    digest = install_image()
    path = cache_directory / "images" / digest / cache.MANIFEST
    document = json.loads(path.read_text())
    document["files"]["../../secret"] = document["files"].pop(cache.KERNEL)
    path.write_text(json.dumps(document))
    with pytest.raises(ImageDamaged, match="belong"):
        load_image(digest)


def test_removal_takes_the_snapshots_of_that_image_along(cache_directory: Path) -> None:
    doomed, kept = install_image("trixie"), install_image("sid")
    for digest in (doomed, kept):
        snapshot = cache_directory / "snapshots" / digest / "key"
        snapshot.mkdir(parents=True)
        (snapshot / "memory").write_bytes(b"x" * 8192)
    assert cache.snapshot_bytes(doomed) >= 8192
    remove_image(doomed)
    assert cache.image_digests() == [kept]
    assert cache.snapshot_bytes(doomed) == 0
    assert cache.snapshot_bytes(kept) >= 8192
    assert sorted(path.name for path in (cache_directory / "images").iterdir()) == [".lock", kept]


def test_a_damaged_image_can_be_removed(cache_directory: Path) -> None:
    digest = install_image()
    (cache_directory / "images" / digest / cache.MANIFEST).unlink()
    remove_image(digest)
    assert cache.image_digests() == []


def test_a_digest_may_be_shortened_while_it_is_clear() -> None:
    digest = install_image("trixie")
    for unclear in ("", "zz", "../images", digest + "0"):
        with pytest.raises(NoSuchImage, match="no image"):
            remove_image(unclear)
    assert cache.find_digest(digest[:6]) == digest


def test_a_digest_that_means_two_images_is_refused(cache_directory: Path) -> None:
    for digest in ("abc1", "abc2"):
        (cache_directory / "images" / digest).mkdir(parents=True)
    with pytest.raises(NoSuchImage, match="2 images"):
        remove_image("abc")
    assert cache.image_digests() == ["abc1", "abc2"]


def test_a_cache_that_cannot_be_written_is_an_error_that_says_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CRASHSIM_CACHE_DIR", str(tmp_path / "file"))
    with (
        pytest.raises(InfrastructureError, match="CRASHSIM_CACHE_DIR"),
        cache.building_lock(),
    ):
        pytest.fail("locked a cache that cannot be")
