"""Image recipes: what a guest image is made of, as a TOML file of `vm_images/` says it."""

import tomllib
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Annotated

import msgspec
import xxhash

from crashsim.errors import UsageError

FORMAT = 1
"""Raised whenever the same recipe would give another image than before."""

_Word = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9][a-z0-9+.-]*$", max_length=100)]
_Module = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_-]+$", max_length=100)]
_Mirror = Annotated[str, msgspec.Meta(pattern=r"^[a-z]+://[!-~]+$|^$", max_length=500)]
_Pattern = Annotated[str, msgspec.Meta(pattern=r"^[/*][!-~]*$", max_length=200)]


class RecipeError(UsageError):
    """An image recipe that is not there or cannot be understood."""


class Recipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What goes into a guest image.

    :ivar suite: the Debian suite: `trixie`, `bookworm`, `sid`.
    :ivar architecture: Debian's name of it; only `amd64` has been tried.
    :ivar kernel_package: gives the kernel and its modules.
    :ivar packages: everything else, beside what apt itself needs.
    :ivar exclude_paths: dpkg path-exclude patterns of files that are not unpacked at all.
    :ivar modules: kernel modules that are loaded at boot.
    :ivar mirror: where the packages come from, for networks that do not reach mmdebstrap's default.
    """

    suite: _Word
    architecture: _Word
    kernel_package: _Word
    packages: tuple[_Word, ...]
    exclude_paths: tuple[_Pattern, ...] = ()
    modules: tuple[_Module, ...] = ()
    mirror: _Mirror = ""

    @property
    def digest(self) -> str:
        """32 hexadecimal digits that name the image: other contents, another digest."""
        return xxhash.xxh3_128_hexdigest(msgspec.json.encode((FORMAT, self), order="sorted"))


@dataclass(frozen=True, slots=True)
class ImageSpec:
    """The guest that a user asks for.

    :ivar recipe: a recipe of `vm_images/`, or the path of a TOML file (it ends in `.toml`).
    :ivar suite: in place of the recipe's own.
    :ivar kernel: a bzImage of the user's own in place of the recipe's kernel. What it needs to
        reach its root (virtio_pci, virtio_blk, virtio_console, ext4, overlay) must be built in.
    :ivar payload: a directory of the host that the guest finds at /payload, its `bin/` first on
        PATH. It is no part of the image: see `compose_initramfs`.
    """

    recipe: str = "debian-13"
    suite: str | None = None
    kernel: Path | None = None
    payload: Path | None = None


def vm_images_directory() -> Path:
    """Where recipes and the guest's first processes lie: in the wheel, or in the source tree."""
    package = Path(str(resources.files("crashsim")))
    for candidate in (package / "_vm_images", package.parent / "vm_images"):
        if candidate.is_dir():
            return candidate
    raise RecipeError(
        f"crashsim's `vm_images` directory is neither in {package} nor beside it; "
        "install crashsim again"
    )


def recipe_names() -> list[str]:
    """The recipes that come with crashsim."""
    return sorted(path.stem for path in vm_images_directory().glob("*.toml"))


def read_recipe(spec: ImageSpec) -> Recipe:
    """The recipe that `spec` names, with its suite put in. Raises RecipeError."""
    if spec.recipe.endswith(".toml"):
        path = Path(spec.recipe)
    elif spec.recipe in recipe_names():
        path = vm_images_directory() / f"{spec.recipe}.toml"
    else:
        raise RecipeError(
            f"there is no image recipe {spec.recipe!r}: take one of {', '.join(recipe_names())}, "
            "or the path of a file that ends in .toml"
        )
    try:
        document = tomllib.loads(path.read_text("utf-8"))
        if spec.suite is not None:
            document["suite"] = spec.suite
        return msgspec.convert(document, Recipe)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise RecipeError(f"cannot read the image recipe {path}: {error}") from error
    except msgspec.ValidationError as error:
        raise RecipeError(f"the image recipe {path} is wrong: {error}") from error
