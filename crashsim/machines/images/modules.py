"""Which kernel modules to load and in which order, from the indexes that depmod(8) makes."""

import gzip
import io
import lzma
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import BinaryIO, Protocol

import zstandard

from crashsim.errors import InfrastructureError

MODULE_SIZE_LIMIT = 64 << 20
"""Bytes; the largest module of Debian's kernels is below 10 MB once decompressed."""


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class ModuleMissing(InfrastructureError):
    """The guest's kernel package has no module of a name that the recipe asks for."""


@dataclass(frozen=True, slots=True)
class ModuleIndex:
    """What depmod wrote about the modules of one kernel release.

    :ivar files: module name to its path below the modules' directory.
    :ivar needs: module name to the names of the modules that it takes symbols from.
    :ivar wants: module name to names or aliases that should be loaded before it.
    :ivar aliases: alias without wildcards to the names of the modules that answer to it.
    :ivar builtin: names of the drivers that are part of the kernel itself.
    """

    files: Mapping[str, str]
    needs: Mapping[str, tuple[str, ...]]
    wants: Mapping[str, tuple[str, ...]]
    aliases: Mapping[str, tuple[str, ...]]
    builtin: frozenset[str]


def module_name(path: str) -> str:
    """The name of the module in a file: `kernel/drivers/md/dm-flakey.ko.xz` gives `dm_flakey`."""
    return path.rsplit("/", 1)[-1].split(".", 1)[0].replace("-", "_")


def parse_index(dep: str, softdep: str, alias: str, builtin: str) -> ModuleIndex:
    """Parse `modules.dep`, `.softdep`, `.alias` and `.builtin` (modules.dep(5), modprobe.d(5))."""
    files: dict[str, str] = {}
    needs: dict[str, tuple[str, ...]] = {}
    for line in dep.splitlines():
        path, _, rest = line.partition(":")
        name = module_name(path)
        files[name] = path
        needs[name] = tuple(module_name(other) for other in rest.split())
    wants: dict[str, tuple[str, ...]] = {}
    for line in softdep.splitlines():
        words = line.split()
        if len(words) < 3 or words[0] != "softdep":
            continue
        name = module_name(words[1])
        wants[name] = wants.get(name, ()) + _words_after_pre(words[2:])
    aliases: dict[str, tuple[str, ...]] = {}
    for line in alias.splitlines():
        words = line.split()
        if len(words) == 3 and words[0] == "alias" and not set("*?[") & set(words[1]):
            aliases[words[1]] = (*aliases.get(words[1], ()), module_name(words[2]))
    names = frozenset(module_name(line) for line in builtin.splitlines() if line.strip())
    return ModuleIndex(files, needs, wants, aliases, names)


def _words_after_pre(words: list[str]) -> tuple[str, ...]:
    section = ""
    found = []
    for word in words:
        if word in ("pre:", "post:"):
            section = word
        elif section == "pre:":
            found.append(word)
    return tuple(found)


def load_order(index: ModuleIndex, wanted: Iterable[str]) -> list[str]:
    """Paths of the modules to load so that all `wanted` ones are loaded, in a working order.

    Names that are built into the kernel are left out. Raises ModuleMissing for an unknown one.
    """
    order: dict[str, None] = {}
    visiting: set[str] = set()

    def visit(name: str) -> None:
        path = index.files.get(name)
        if path is None or path in order or name in visiting:
            return
        visiting.add(name)
        for soft in index.wants.get(name, ()):
            for other in (module_name(soft), *index.aliases.get(soft, ())):
                visit(other)
        for hard in index.needs.get(name, ()):
            visit(hard)
        order[path] = None

    for wish in wanted:
        name = module_name(wish)
        if name not in index.files and name not in index.builtin:
            raise ModuleMissing(
                f"the guest's kernel has no module {wish!r}; correct `modules` or `exclude_paths` "
                "of the image recipe, or take another `kernel_package`"
            )
        visit(name)
    return list(order)


def decompress(path: str, content: bytes) -> bytes:
    """A module's ELF image, from a `.ko`, `.ko.xz`, `.ko.zst` or `.ko.gz` file.

    Raises InfrastructureError if `content` is not what its name says or unreasonably large.
    """
    packed = io.BytesIO(content)
    openers: dict[str, Callable[[BinaryIO], AbstractContextManager[_Readable]]] = {
        ".xz": lzma.open,
        ".gz": gzip.open,
        ".zst": zstandard.ZstdDecompressor().stream_reader,
    }
    opener = openers.get(PurePosixPath(path).suffix, nullcontext)
    try:
        with opener(packed) as stream:
            plain = stream.read(MODULE_SIZE_LIMIT + 1)
    except (lzma.LZMAError, zstandard.ZstdError, EOFError, OSError) as error:
        raise InfrastructureError(f"cannot decompress the kernel module {path}: {error}") from error
    if not plain.startswith(b"\x7fELF") or len(plain) > MODULE_SIZE_LIMIT:
        raise InfrastructureError(f"{path} in the guest's kernel package is no kernel module")
    return plain


def uncompressed_path(path: str) -> str:
    """The module's path without the compression's suffix."""
    return path[: path.index(".ko")] + ".ko"
