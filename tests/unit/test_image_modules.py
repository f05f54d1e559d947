"""Which kernel modules are loaded, and in which order."""

import gzip
import lzma
from collections.abc import Callable

import pytest
import zstandard

from crashsim.errors import InfrastructureError
from crashsim.machines.images import modules
from crashsim.machines.images.modules import (
    ModuleMissing,
    decompress,
    load_order,
    module_name,
    parse_index,
    uncompressed_path,
)

DEP = """\
kernel/fs/xfs/xfs.ko.xz: kernel/lib/libcrc32c.ko.xz
kernel/lib/libcrc32c.ko.xz:
kernel/crypto/crc32c_generic.ko.xz:
kernel/fs/btrfs/btrfs.ko.xz: kernel/lib/raid6/raid6_pq.ko.xz kernel/lib/libcrc32c.ko.xz
kernel/lib/raid6/raid6_pq.ko.xz:
kernel/drivers/md/dm-mod.ko.xz:
kernel/drivers/md/dm-flakey.ko.xz: kernel/drivers/md/dm-mod.ko.xz
"""
SOFTDEP = """\
# Soft dependencies extracted from modules themselves.
softdep libcrc32c pre: crc32c
softdep btrfs pre: nowhere post: dm-mod
softdep dm_mod post: dm-flakey
"""
ALIAS = """\
alias crc32c crc32c_generic
alias crypto-* btrfs
alias fs-xfs xfs
"""
BUILTIN = "kernel/drivers/virtio/virtio_pci.ko\n"

INDEX = parse_index(DEP, SOFTDEP, ALIAS, BUILTIN)


def test_names_are_taken_from_paths_as_the_kernel_takes_them() -> None:
    assert module_name("kernel/drivers/md/dm-log-writes.ko.xz") == "dm_log_writes"
    assert uncompressed_path("kernel/fs/xfs/xfs.ko.xz") == "kernel/fs/xfs/xfs.ko"
    assert uncompressed_path("kernel/fs/xfs/xfs.ko") == "kernel/fs/xfs/xfs.ko"


def test_what_a_module_needs_comes_before_it_and_once() -> None:
    assert load_order(INDEX, ["xfs", "btrfs", "dm-flakey"]) == [
        "kernel/crypto/crc32c_generic.ko.xz",  # a soft dependency, by an alias
        "kernel/lib/libcrc32c.ko.xz",
        "kernel/fs/xfs/xfs.ko.xz",
        "kernel/lib/raid6/raid6_pq.ko.xz",
        "kernel/fs/btrfs/btrfs.ko.xz",
        "kernel/drivers/md/dm-mod.ko.xz",
        "kernel/drivers/md/dm-flakey.ko.xz",
    ]


def test_drivers_of_the_kernel_itself_are_not_loaded() -> None:
    assert load_order(INDEX, ["virtio_pci"]) == []


def test_an_unknown_module_is_an_error_that_says_what_to_correct() -> None:
    with pytest.raises(ModuleMissing, match=r"'reiserfs'.*modules"):
        load_order(INDEX, ["reiserfs"])


def test_soft_dependencies_in_a_circle_end() -> None:
    index = parse_index("a.ko:\nb.ko:\n", "softdep a pre: b\nsoftdep b pre: a\n", "", "")
    assert load_order(index, ["a"]) == ["b.ko", "a.ko"]


ELF = b"\x7fELF" + bytes(range(256)) * 40


@pytest.mark.parametrize(
    ("suffix", "content"),
    [
        ("", ELF),
        (".xz", lzma.compress(ELF)),
        (".gz", gzip.compress(ELF)),
        (".zst", zstandard.compress(ELF)),
    ],
)
def test_every_compression_of_debian_kernels_is_undone(suffix: str, content: bytes) -> None:
    assert decompress(f"kernel/a.ko{suffix}", content) == ELF


@pytest.mark.parametrize(
    ("suffix", "content"),
    [
        ("", b"no module"),
        (".xz", lzma.compress(b"no module")),
        (".xz", lzma.compress(ELF)[:-30]),
        (".xz", ELF),
        (".gz", ELF),
        (".zst", ELF),
    ],
)
def test_what_is_no_module_is_refused(suffix: str, content: bytes) -> None:
    with pytest.raises(InfrastructureError, match=r"kernel/a\.ko"):
        decompress(f"kernel/a.ko{suffix}", content)


@pytest.mark.parametrize("suffix", [".xz", ".gz", ".zst"])
def test_a_module_that_swells_beyond_the_limit_is_refused(
    suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    packers: dict[str, Callable[[bytes], bytes]] = {
        ".xz": lzma.compress,
        ".gz": gzip.compress,
        ".zst": zstandard.compress,
    }
    pack = packers[suffix]
    monkeypatch.setattr(modules, "MODULE_SIZE_LIMIT", len(ELF))
    assert decompress(f"a.ko{suffix}", pack(ELF)) == ELF
    with pytest.raises(InfrastructureError, match="no kernel module"):
        decompress(f"a.ko{suffix}", pack(ELF + b"x"))
