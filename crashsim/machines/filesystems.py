"""The filesystems that crashsim can make, mount and hurry.

A filesystem is made as its users make it, with the defaults of its own mkfs, except where a default
would only cost time or make two recordings differ:

- *small*: the crash disk is 16 GiB and sparse, the filesystem at its start is a few hundred MiB
  (the smallest that each mkfs makes without complaint), so that a mount in recovery has little to
  read.
- *nothing left for later*: ext4 would zero its inode tables from a kernel thread after the first
  mount (`lazy_itable_init`, mke2fs(8)); those writes would land anywhere in the log. The crash disk
  starts all zero, so mke2fs is told just that (`assume_storage_prezeroed`).
- *no discard of the whole device* in mkfs: it is zero already.
- *fixed UUIDs, hash seeds and times* where mkfs takes them (btrfs takes no time). The kernel's own
  timestamps still differ, so logs of two recordings are alike and not equal.

A filesystem can have a second crash disk, of which the spelling tells what is on it:

- `ext4+log`, `xfs+log`: its own journal (external journal, mke2fs(8); external log, mkfs.xfs(8)),
- `ext4+objects` and so on: a second filesystem of the same kind, mounted at `OBJECTS`.

Every mount has `noatime`: to hash a tree after each step would otherwise write access times
(`relatime`, mount(8)) into the log, writes that the program under test never asked for.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from crashsim.errors import UsageError
from crashsim.machines.protocol import Mount

MIB = 1 << 20
SECOND_DEVICE = "/dev/vdc"
SECOND_UUID = "63726173-6873-496d-8000-000000000001"
OBJECTS = "repo/.git/objects"
"""Where the workloads of git and of the store have their objects, below the root."""
FILESYSTEM_UUID = "63726173-6873-496d-8000-000000000000"
FIXED_TIME_SECONDS = 1_112_911_993
"""What mkfs believes the time to be, in seconds since 1970 (April 2005)."""

_FIXED_TIME = f"E2FSPROGS_FAKE_TIME={FIXED_TIME_SECONDS} SOURCE_DATE_EPOCH={FIXED_TIME_SECONDS}"

ALWAYS = ("noatime",)

_OPTION_CHARACTERS = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789=_-.:/%+"
)
_OPTION_LENGTH_LIMIT = 256

_NO_RECOVERY = frozenset(
    {"ro", "noload", "norecovery", "nologreplay", "rescue", "remount", "bind", "usebackuproot"}
)
"""Options that would leave out the recovery that is to be tested, or mount something else."""


class UnknownFilesystem(UsageError):
    """A filesystem was asked for that crashsim cannot make."""


class NoSuchSecondDisk(UsageError):
    """A filesystem has no use for a second disk of that name."""


class BadMountOption(UsageError):
    """A mount option is malformed, or would take the recovery out of the test."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A value to write to every file of /proc or /sys in the guest that `path`, a glob, names."""

    path: str
    value: str


@dataclass(frozen=True, slots=True)
class SecondDisk:
    """What is on the second crash disk of a filesystem.

    :ivar use: as in the spelling: `log`, `objects`.
    :ivar mkfs_argv: as of `Filesystem`; empty where mkfs of the first does it. It is run before.
    :ivar options: mount options by which the first filesystem finds it.
    :ivar directory: where it is mounted, below the root of the first; empty for a log.
    """

    use: str
    mkfs_argv: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    directory: str = ""


@dataclass(frozen=True, slots=True)
class Filesystem:
    """One way to make and mount a filesystem.

    :ivar fstype: as mount(2) takes it.
    :ivar size_bytes: what mkfs is told to use of the crash disk.
    :ivar mkfs_argv: the command that makes it; the device's path comes after it (`Guest.format`).
    :ivar short_commit_options: mount options that make its own timed commit fire each second.
    :ivar short_commit_settings: the same, for filesystems that take it elsewhere.
    :ivar mount_options: what the user asked for, in the user's order.
    :ivar second: what is on a second crash disk; None where there is one disk.
    """

    fstype: str
    size_bytes: int
    mkfs_argv: tuple[str, ...]
    short_commit_options: tuple[str, ...] = ()
    short_commit_settings: tuple[Setting, ...] = ()
    mount_options: tuple[str, ...] = ()
    second: SecondDisk | None = None

    @property
    def spelling(self) -> str:
        """As the user writes it: `ext4`, or `ext4+log:data=writeback,commit=1`."""
        name = self.fstype if self.second is None else f"{self.fstype}+{self.second.use}"
        options = ",".join(self.mount_options)
        return f"{name}:{options}" if options else name

    @property
    def disks(self) -> int:
        """How many crash disks it takes."""
        return 1 if self.second is None else 2

    def mount(self, slot: int, *, short_commit: bool = False) -> Mount:
        """How to mount it from disk `slot`.

        `short_commit` is for recording with the `commit` disturbance. A recovery leaves it out: how
        often a filesystem commits has no part in how it recovers. The user's own options come last,
        and so win over it.
        """
        hurried = self.short_commit_options if short_commit else ()
        second = self.second or SecondDisk("")
        options = ",".join((*ALWAYS, *hurried, *self.mount_options))
        then = Mount(slot + 1, self.fstype, options, at=f"/mnt/{slot}/{second.directory}")
        return Mount(
            slot,
            self.fstype,
            ",".join((options, *second.options)),
            then=(then,) if second.directory else (),
        )


def _ext4(size: int = 256 * MIB) -> Filesystem:
    extended = (
        f"hash_seed={FILESYSTEM_UUID},nodiscard,lazy_itable_init=0,assume_storage_prezeroed=1"
    )
    # The size comes after the device, which Guest.format puts last: hence the shell.
    # 16 KiB for each inode is mke2fs' default for larger disks; "small" ones get four times the
    # inode tables. The journal is the smallest that a filesystem of 128 MiB and more gets.
    return Filesystem(
        "ext4",
        size,
        (
            "sh",
            "-c",
            f"{_FIXED_TIME} exec mkfs.ext4 -F -q -b 4096 -i 16384 -J size=4 -U {FILESYSTEM_UUID} "
            f'-E {extended} "$0" {size // 4096}',
        ),
        short_commit_options=("commit=1",),
    )


def _xfs(size: int = 320 * MIB) -> Filesystem:
    # mkfs.xfs(8) refuses less than 300 MiB.
    return Filesystem(
        "xfs",
        size,
        (
            *("env", f"SOURCE_DATE_EPOCH={FIXED_TIME_SECONDS}"),
            *("mkfs.xfs", "-f", "-q", "-K", "-m", f"uuid={FILESYSTEM_UUID}", "-d", f"size={size}"),
        ),
        # In hundredths of a second; 100 is the least (the kernel's admin-guide/xfs).
        short_commit_settings=(Setting("/proc/sys/fs/xfs/xfssyncd_centisecs", "100"),),
    )


def _btrfs(size: int = 256 * MIB) -> Filesystem:
    return Filesystem(
        "btrfs",
        size,
        ("mkfs.btrfs", "-f", "-q", "-K", "-U", FILESYSTEM_UUID, "-b", str(size)),
        short_commit_options=("commit=1",),
    )


def _f2fs(size: int = 256 * MIB) -> Filesystem:
    return Filesystem(
        "f2fs",
        size,
        (
            "sh",
            "-c",
            f"exec mkfs.f2fs -f -q -t 0 -r -T {FIXED_TIME_SECONDS} -U {FILESYSTEM_UUID} "
            f'"$0" {size // 512}',
        ),
        short_commit_settings=(
            # In seconds; 60 unless set (the kernel's ABI/testing/sysfs-fs-f2fs). f2fs looks at it
            # only when something gets written, so the flusher has to come by as often: each half
            # second, for what is a second old (the kernel's admin-guide/sysctl/vm).
            Setting("/sys/fs/f2fs/*/cp_interval", "1"),
            Setting("/proc/sys/vm/dirty_writeback_centisecs", "50"),
            Setting("/proc/sys/vm/dirty_expire_centisecs", "100"),
        ),
    )


_MAKERS: Mapping[str, Callable[..., Filesystem]] = MappingProxyType(
    {"ext4": _ext4, "xfs": _xfs, "btrfs": _btrfs, "f2fs": _f2fs}
)

FILESYSTEMS = MappingProxyType({name: make() for name, make in _MAKERS.items()})
"""Every filesystem that crashsim can make, by name."""


def resized(filesystem: Filesystem, size_bytes: int) -> Filesystem:
    """The same filesystem on more of the disk, for workloads that do not fit."""
    made = _MAKERS[filesystem.fstype](size_bytes)
    if filesystem.second is not None:
        made = with_second_disk(made, filesystem.second.use)
    return replace(made, mount_options=filesystem.mount_options)


def with_second_disk(filesystem: Filesystem, use: str) -> Filesystem:
    """The same filesystem with a second disk. Raises NoSuchSecondDisk."""
    mkfs_argv = filesystem.mkfs_argv
    match use, filesystem.fstype:
        case "objects", _:
            other = tuple(word.replace(FILESYSTEM_UUID, SECOND_UUID) for word in mkfs_argv)
            return replace(filesystem, second=SecondDisk(use, other, directory=OBJECTS))
        case "log", "ext4":
            # The kernel knows a journal by its device number, which the option makes sure of.
            journal = f"{_FIXED_TIME} exec mke2fs -F -q -O journal_dev -b 4096 -U {SECOND_UUID}"
            second = SecondDisk(
                use, ("sh", "-c", f'{journal} "$0" 2048'), (f"journal_path={SECOND_DEVICE}",)
            )
            elsewhere = f"-J device={SECOND_DEVICE}"
            mkfs_argv = tuple(word.replace("-J size=4", elsewhere) for word in mkfs_argv)
            return replace(filesystem, mkfs_argv=mkfs_argv, second=second)
        case "log", "xfs":
            second = SecondDisk(use, options=(f"logdev={SECOND_DEVICE}",))
            mkfs_argv = (*mkfs_argv, "-l", f"logdev={SECOND_DEVICE},size=64m")
            return replace(filesystem, mkfs_argv=mkfs_argv, second=second)
    raise NoSuchSecondDisk(
        f"{filesystem.fstype}+{use}: a second disk is for objects (of the targets git and impl) or "
        "for the log of ext4 or xfs"
    )


def parse_filesystem(text: str) -> Filesystem:
    """Read `--fs`: a name; a plus and the use of a second disk (`xfs+log`); a colon and mount
    options (`ext4:data=writeback,commit=1`).

    Raises UnknownFilesystem, naming the known ones, NoSuchSecondDisk and BadMountOption. Whether
    the kernel takes an option is for the kernel to say, when it mounts.
    """
    named, _, options = text.partition(":")
    name, plus, use = named.partition("+")
    if name not in FILESYSTEMS:
        known = ", ".join(FILESYSTEMS)
        raise UnknownFilesystem(f"unknown filesystem {name!r}: crashsim knows {known}")
    if len(options) > _OPTION_LENGTH_LIMIT:
        raise BadMountOption(f"the mount options of {name} are longer than {_OPTION_LENGTH_LIMIT}")
    if ":" in text and not options:
        raise BadMountOption(f"no mount options after the colon of {text!r}: write {named!r}")
    parsed = tuple(_checked(option, name) for option in options.split(",")) if options else ()
    made = with_second_disk(FILESYSTEMS[name], use) if plus else FILESYSTEMS[name]
    return replace(made, mount_options=parsed)


def on_one_disk(filesystem: Filesystem, what: str) -> Filesystem:
    """The same; NoSuchSecondDisk if it has a second disk, with which `what` does not go."""
    if filesystem.disks > 1:
        raise NoSuchSecondDisk(f"{what} goes with one disk, and {filesystem.spelling} has two")
    return filesystem


def _checked(option: str, filesystem: str) -> str:
    if not option:
        raise BadMountOption(f"an empty mount option for {filesystem}: is a comma too many?")
    unknown = sorted(set(option) - _OPTION_CHARACTERS)
    if unknown:
        raise BadMountOption(f"mount option {option!r} of {filesystem} has {unknown[0]!r} in it")
    if option.partition("=")[0] in _NO_RECOVERY:
        raise BadMountOption(
            f"mount option {option!r} of {filesystem} leaves out the recovery that is to be tested"
        )
    return option
