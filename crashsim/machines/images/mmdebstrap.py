"""Running mmdebstrap: as root, or as anybody who may use user namespaces.

mmdebstrap runs in mount and process namespaces of its own, below a user namespace where we are not
root. When its first process is killed the kernel ends all the others and unmounts everything, so
no way of dying leaves a mount or a process behind.
"""

import os
import shlex
import shutil
import subprocess
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from crashsim.errors import InfrastructureError
from crashsim.machines.images import cache
from crashsim.machines.images.recipe import Recipe

_LOG_LINES = 25

_TOOLS = {
    "mmdebstrap": "mmdebstrap",
    "genext2fs": "genext2fs",
    "setpriv": "util-linux",
    "unshare": "util-linux",
    "apt-config": "apt",
}
"""Program to the Debian package that has it."""

_APT_SETTINGS = (
    "Acquire::http",
    "Acquire::https",
    "Acquire::Retries",
    "Acquire::Check-Date",
    "Acquire::Check-Valid-Until",
)

_PHASES = (
    ("running apt-get update", "reading package lists", 0.02),
    ("downloading packages", "downloading packages", 0.10),
    ("extracting archives", "unpacking essential packages", 0.25),
    ("installing essential", "installing essential packages", 0.30),
    ("installing remaining", "installing packages", 0.40),
    ("running --customize-hook", "taking kernel and modules", 0.85),
    ("cleaning package lists", "cleaning up", 0.88),
    ("creating tarball", "making the file system", 0.90),
)
"""What mmdebstrap prints, what we call it, and the share of the time that has passed by then."""


class ImageBuildFailed(InfrastructureError):
    """mmdebstrap did not give an image."""


@dataclass(frozen=True, slots=True)
class BuildProgress:
    """How far a build is.

    :ivar phase: what goes on, for people.
    :ivar fraction: share of the expected time that has passed, 0 to 1.
    """

    phase: str
    fraction: float


Progress = Callable[[BuildProgress], None]


def check_tools() -> None:
    """Raise InfrastructureError, with what to install or allow, if no image can be built here."""
    for tool, package in _TOOLS.items():
        if shutil.which(tool) is None:
            raise InfrastructureError(
                f"building the guest image needs {tool}: install the Debian package {package}"
            )
    probe = subprocess.run(
        [*namespaces(), "true"], stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    if probe.returncode != 0:
        said = probe.stderr.decode("utf-8", "replace").strip()
        raise InfrastructureError(
            f"cannot make the namespaces for building the guest image ({said}); an ordinary user "
            "needs util-linux 2.38, the Debian package uidmap, ranges in /etc/subuid and "
            "/etc/subgid, and a kernel that allows user namespaces (on Ubuntu: sysctl "
            "kernel.apparmor_restrict_unprivileged_userns=0)"
        )


def namespaces() -> list[str]:
    """What to put before a command so that it runs in such namespaces, as their root."""
    users = [] if os.geteuid() == 0 else ["--map-root-user", "--map-auto"]
    return ["unshare", *users, "--mount", "--pid", "--fork", "--kill-child=KILL", "--"]


def _mmdebstrap_command(recipe: Recipe, work: Path) -> list[str]:
    def out(name: str) -> str:
        return shlex.quote(str(work / name))

    hooks = (
        'mv "$1"/boot/vmlinuz-* "$1/crashsim-kernel" && rm -rf "$1"/boot/*',
        'chroot "$1" dpkg-query --show >"$1/crashsim-packages"',
        f"download /crashsim-kernel {out(cache.KERNEL)}",
        f"download /crashsim-packages {out('packages')}",
        f"download /bin/busybox {out('busybox')}",
        f"tar-out /lib/modules {out('modules.tar')}",
        # The host's settings have done their work, and a proxy may have a password in them.
        'rm "$1/crashsim-kernel" "$1/crashsim-packages" "$1/etc/apt/apt.conf.d/99mmdebstrap"',
    )
    return [
        # When this process dies, in whatever way, so does everything that it has started here.
        *("setpriv", "--pdeathsig", "KILL", "--"),
        *namespaces(),
        *("mmdebstrap", "--mode=root", "--variant=apt", "--format=ext2"),
        f"--architectures={recipe.architecture}",
        f"--include={','.join((recipe.kernel_package, *recipe.packages))}",
        '--aptopt=APT::Install-Recommends "false"',
        *(f"--aptopt={setting}" for setting in host_apt_settings()),
        "--dpkgopt=force-unsafe-io",
        *(f"--dpkgopt=path-exclude={pattern}" for pattern in recipe.exclude_paths),
        *(f"--customize-hook={hook}" for hook in hooks),
        recipe.suite,
        str(work / cache.ROOTFS),
        *([recipe.mirror] if recipe.mirror else []),
    ]


def host_apt_settings() -> list[str]:
    """How this host's apt downloads: its proxies, retries and time checks (apt.conf(5))."""
    dump = subprocess.run(
        ["apt-config", "dump", "--no-empty", *_APT_SETTINGS],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if dump.returncode != 0:
        raise InfrastructureError(f"cannot read apt's settings: {dump.stderr.strip()}")
    return dump.stdout.splitlines()


def run_mmdebstrap(
    recipe: Recipe, work: Path, scratch: Path, lock: int, progress: Progress
) -> None:
    """Build a root file system, and take out of it what the host needs.

    Leaves in `work`: `rootfs.ext2`, `kernel`, `busybox`, `modules.tar` (the guest's /lib/modules)
    and `packages` (name, tab, version; one a line). mmdebstrap works in `scratch`, which must be
    on a file system that everybody can get into, and may be left there when the build dies. All of
    its processes hold the descriptor `lock`. Raises ImageBuildFailed.
    """
    log: deque[str] = deque(maxlen=_LOG_LINES)
    with subprocess.Popen(
        _mmdebstrap_command(recipe, work),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(scratch), "LC_ALL": "C.UTF-8"},
        start_new_session=True,  # a Ctrl-C is for us alone
        pass_fds=(lock,),  # the lock is held until the last of them is gone
        text=True,
        errors="replace",
    ) as process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                log.append(line.rstrip())
                for printed, phase, fraction in _PHASES:
                    if printed in line:
                        progress(BuildProgress(phase, fraction))
        except BaseException:
            process.kill()
            process.stderr.read()  # its end says that all who could write there are gone
            raise
    if process.returncode != 0:
        raise ImageBuildFailed(_explain(recipe, process.returncode, list(log)))


def _explain(recipe: Recipe, status: int, log: list[str]) -> str:
    text = "\n".join(log)
    if "No space left on device" in text:
        advice = "free some space, or name another place in TMPDIR and CRASHSIM_CACHE_DIR"
    elif "NO_PUBKEY" in text or "not signed" in text:
        advice = "install the Debian package debian-archive-keyring"
    else:
        advice = "check the network and the recipe"
    return (
        f"mmdebstrap could not build the guest image ({recipe.suite}), exit status {status}: "
        f"{advice}. Its last words:\n{text}"
    )
