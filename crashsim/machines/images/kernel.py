"""A Linux kernel of the user's own, as far as it must be understood to boot it."""

import struct
from pathlib import Path

from crashsim.errors import UsageError


class KernelError(UsageError):
    """A kernel of the user's own that cannot be booted."""


def kernel_release(path: Path) -> str:
    """The release that a bzImage says it is. Raises KernelError if it is none.

    The header is described in Documentation/arch/x86/boot.rst of the Linux source.
    """
    try:
        with path.open("rb") as stream:
            head = stream.read(0x210)
            if len(head) < 0x210 or head[0x202:0x206] != b"HdrS":
                raise KernelError(
                    f"the kernel {path} is no bzImage for x86; give arch/x86/boot/bzImage"
                )
            stream.seek(struct.unpack_from("<H", head, 0x20E)[0] + 0x200)
            text = stream.read(256)
    except OSError as error:
        raise KernelError(f"cannot read the kernel {path}: {error.strerror}") from error
    words = text.split(b"\0", 1)[0].decode("ascii", "replace").split()
    if not words:
        raise KernelError(f"the kernel {path} does not say its release; it cannot be used")
    return words[0]
