"""Guest images: recipes, how they are built and cached, and the initramfs that boots them."""

from crashsim.machines.images.build import find_or_build_image
from crashsim.machines.images.cache import (
    Image,
    Manifest,
    cache_directory,
    list_images,
    remove_image,
    snapshots_directory,
)
from crashsim.machines.images.initramfs import compose_initramfs
from crashsim.machines.images.mmdebstrap import BuildProgress, Progress
from crashsim.machines.images.recipe import ImageSpec, Recipe

__all__ = [
    "BuildProgress",
    "Image",
    "ImageSpec",
    "Manifest",
    "Progress",
    "Recipe",
    "cache_directory",
    "compose_initramfs",
    "find_or_build_image",
    "list_images",
    "remove_image",
    "snapshots_directory",
]
