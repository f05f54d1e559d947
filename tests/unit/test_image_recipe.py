"""Image recipes: what may stand in them and what names an image."""

from pathlib import Path

import pytest

from crashsim.machines.images.recipe import (
    ImageSpec,
    RecipeError,
    read_recipe,
    recipe_names,
    vm_images_directory,
)

MINIMAL = """
suite = "trixie"
architecture = "amd64"
kernel_package = "linux-image-amd64"
packages = ["git"]
"""


def write(directory: Path, text: str) -> ImageSpec:
    path = directory / "own.toml"
    path.write_text(text)
    return ImageSpec(recipe=str(path))


def test_every_recipe_that_comes_with_crashsim_can_be_read() -> None:
    assert "debian-13" in recipe_names()
    for name in recipe_names():
        recipe = read_recipe(ImageSpec(recipe=name))
        assert {"git", "python3", "busybox-static"} <= set(recipe.packages)


def test_no_recipe_or_script_names_a_mirror() -> None:
    for path in filter(Path.is_file, vm_images_directory().rglob("*")):
        assert "://" not in path.read_text()


def test_the_guests_first_processes_come_along() -> None:
    for name in ("init", "pid1"):
        assert (vm_images_directory() / name).is_file()


def test_the_digest_changes_with_the_content_only(tmp_path: Path) -> None:
    base = read_recipe(write(tmp_path, MINIMAL)).digest
    spaced = MINIMAL.replace("suite", "# a comment\n\nsuite")
    assert read_recipe(write(tmp_path, spaced)).digest == base
    assert read_recipe(write(tmp_path, MINIMAL.replace('"git"', '"git", "fio"'))).digest != base
    assert read_recipe(write(tmp_path, MINIMAL + 'mirror = "http://mirror.test"')).digest != base


def test_a_suite_of_the_users_own_makes_another_image() -> None:
    plain = read_recipe(ImageSpec())
    assert read_recipe(ImageSpec(suite=plain.suite)).digest == plain.digest
    other = read_recipe(ImageSpec(suite="sid"))
    assert other.suite == "sid"
    assert other.digest != plain.digest


def test_an_unknown_recipe_is_answered_with_those_there_are() -> None:
    with pytest.raises(RecipeError, match="debian-13"):
        read_recipe(ImageSpec(recipe="debian-99"))


@pytest.mark.parametrize(
    "text",
    [
        MINIMAL.replace('"git"', '"git,evil"'),
        MINIMAL.replace('"git"', '"--hook-dir=/x"'),
        MINIMAL.replace('"trixie"', '"--mode=root"'),
        MINIMAL.replace('"git"', "1"),
        MINIMAL + 'mirror = "--variant=none"',
        MINIMAL + 'exclude_paths = ["relative"]',
        MINIMAL + 'modules = ["../../etc/passwd"]',
        MINIMAL + "colour = 1",
        "suite = ",
        "",
    ],
)
def test_a_recipe_that_is_wrong_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(RecipeError, match=r"own\.toml"):
        read_recipe(write(tmp_path, text))


def test_a_recipe_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"none\.toml"):
        read_recipe(ImageSpec(recipe=str(tmp_path / "none.toml")))
