"""`crashsim image`: what it prints, what it refuses."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from crashsim.cli.image import image_app
from crashsim.errors import UsageError
from crashsim.machines.images import cache
from tests.support.image_cache import fake_tools, install_image

runner = CliRunner()


@pytest.fixture(autouse=True)
def cache_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CRASHSIM_CACHE_DIR", str(tmp_path / "cache"))
    # Whatever daemon this host has, it keeps its images.
    monkeypatch.setattr("crashsim.cli.image.remove_container_images", lambda: 0)
    return tmp_path / "cache"


def test_build_tells_its_phases_and_what_came_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in fake_tools(tmp_path, namespaces=False).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    first = runner.invoke(image_app, ["build", "--suite", "sid"], catch_exceptions=False)
    (digest,) = cache.image_digests()
    assert first.exit_code == 0
    assert first.stdout.startswith(f"image {digest[:12]}: Debian sid, kernel 6.12.0, ")
    second = runner.invoke(image_app, ["build", "--suite", "sid"], catch_exceptions=False)
    assert second.stdout == first.stdout


def test_list_is_empty_at_first() -> None:
    result = runner.invoke(image_app, ["list"], catch_exceptions=False)
    assert "crashsim image build" in result.stdout


def test_list_as_json_is_nothing_but_json(cache_directory: Path) -> None:
    digest = install_image(rootfs=b"12345")
    result = runner.invoke(image_app, ["list", "--json", "-"], catch_exceptions=False)
    document = json.loads(result.stdout)
    assert document["schema"] == "crashsim.images/1"
    (row,) = document["images"]
    assert row["digest"] == digest
    assert row["bytes"] == 5 + len(b"kernel") + len(b"initramfs")
    assert (row["suite"], row["kernel"], row["git"]) == ("trixie", "6.12.0", "1:2.47")
    assert row["damaged"] is None
    assert row["directory"] == str(cache_directory / "images" / digest)


def test_list_shows_all_images_though_one_is_damaged(cache_directory: Path) -> None:
    good, bad = install_image("trixie", b"good"), install_image("sid", b"good")
    (cache_directory / "images" / bad / cache.ROOTFS).write_bytes(b"evil")
    unverified = runner.invoke(image_app, ["list", "--json", "-"], catch_exceptions=False)
    assert all(row["damaged"] is None for row in json.loads(unverified.stdout)["images"])
    result = runner.invoke(image_app, ["list", "--verify", "--json", "-"])
    assert isinstance(result.exception, cache.ImageDamaged)
    damaged = {row["digest"]: row["damaged"] for row in json.loads(result.stdout)["images"]}
    assert damaged[good] is None
    assert f"crashsim image rm {bad[:12]}" in damaged[bad]


def test_rm_removes_what_is_named_or_all() -> None:
    first, second = install_image("trixie"), install_image("sid")
    result = runner.invoke(image_app, ["rm", first[:8]], catch_exceptions=False)
    assert result.stdout == f"removed image {first[:12]}\n"
    assert cache.image_digests() == [second]
    runner.invoke(image_app, ["rm", "--all"], catch_exceptions=False)
    assert cache.image_digests() == []


@pytest.mark.parametrize("arguments", [[], ["--all", "0123"], ["nosuch"]])
def test_rm_of_nothing_in_particular_removes_nothing(arguments: list[str]) -> None:
    digest = install_image()
    result = runner.invoke(image_app, ["rm", *arguments])
    assert isinstance(result.exception, UsageError)
    assert cache.image_digests() == [digest]


@pytest.mark.parametrize("command", ["build", "list", "rm"])
def test_every_command_helps_with_an_example(command: str) -> None:
    result = runner.invoke(image_app, [command, "--help"], catch_exceptions=False)
    assert f"crashsim image {command}" in result.stdout


@pytest.mark.parametrize(("arguments", "told"), [(["--all"], True), (["{first}"], False)])
def test_only_all_takes_the_docker_daemons_image(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], told: bool
) -> None:
    first = install_image()
    monkeypatch.setattr("crashsim.cli.image.remove_container_images", lambda: 1)
    arguments = [each.format(first=first) for each in arguments]

    result = runner.invoke(image_app, ["rm", *arguments], catch_exceptions=False)
    assert ("from the Docker daemon" in result.stdout) is told
