"""Small stand-ins for guest images and for the programs that build them."""

import io
import os
import struct
import tarfile
from pathlib import Path

from crashsim.machines.images import cache
from crashsim.machines.images.cache import Manifest
from crashsim.machines.images.recipe import ImageSpec, read_recipe

FAKE_MMDEBSTRAP = """\
#!/bin/sh
# Stands in for mmdebstrap: what it would have built lies in $FAKE_RESULT.
echo $$ >>"$FAKE_RESULT/started"
ls -l /proc/$$/fd >"$FAKE_RESULT/descriptors"
echo "I: running apt-get update..." >&2
for rootfs; do :; done
directory=$(dirname "$rootfs")
if [ -p "$FAKE_RESULT/gate" ]; then
    mkdir "$TMPDIR/mmdebstrap.chroot"
    echo "I: extracting archives..." >&2
    read -r _ <"$FAKE_RESULT/gate"
fi
if [ -e "$FAKE_RESULT/failure" ]; then
    cat "$FAKE_RESULT/failure" >&2
    exit 1
fi
cp "$FAKE_RESULT/image/"* "$directory/"
"""

FAKE_UNSHARE = """\
#!/bin/sh
# Stands in for unshare(1) where namespaces are not allowed.
while [ "$1" != -- ]; do shift; done
shift
exec "$@"
"""


def bzimage(release: str) -> bytes:
    """The head of a bzImage: what the boot protocol says about where the release is."""
    head = bytearray(0x400)
    head[0x202:0x206] = b"HdrS"
    struct.pack_into("<H", head, 0x20E, 0x400 - 0x200)
    return bytes(head) + release.encode() + b" (builder@host) #1 SMP\0"


def install_image(suite: str = "trixie", rootfs: bytes = b"root file system") -> str:
    """Put a small image into the cache; its digest."""
    recipe = read_recipe(ImageSpec(suite=suite))
    contents = {cache.ROOTFS: rootfs, cache.KERNEL: b"kernel", cache.INITRAMFS: b"initramfs"}
    work = cache.images_directory() / f".building-{suite}"
    work.mkdir(parents=True)
    for name, content in contents.items():
        (work / name).write_bytes(content)
    files = {name: cache.file_record(work / name) for name in contents}
    cache.publish(work, Manifest(recipe.digest, recipe, "6.12.0", 0, 1.0, {"git": "1:2.47"}, files))
    return recipe.digest


def fake_tools(directory: Path, *, namespaces: bool) -> dict[str, str]:
    """Programs to build with, in `directory`; the environment that makes them found."""
    tools = directory / "tools"
    result = directory / "result"
    (result / "image").mkdir(parents=True)
    tools.mkdir()
    scripts = {"mmdebstrap": FAKE_MMDEBSTRAP, "genext2fs": "#!/bin/sh\n"}
    scripts["apt-config"] = "#!/bin/sh\necho 'Acquire::Retries \"3\";'\n"
    if not namespaces:
        scripts["unshare"] = FAKE_UNSHARE
    for name, text in scripts.items():
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    image = result / "image"
    (image / cache.ROOTFS).write_bytes(b"root file system")
    (image / cache.KERNEL).write_bytes(bzimage("6.12.0"))
    (image / "busybox").write_bytes(b"busybox")
    (image / "packages").write_text("git\t1:2.47.3\npython3\t3.13\n")
    with tarfile.open(image / "modules.tar", "w") as tar:
        for name in ("modules.dep", "modules.softdep", "modules.alias", "modules.builtin"):
            builtin = "\n".join(f"kernel/{m}.ko" for m in read_recipe(ImageSpec()).modules).encode()
            content = builtin if name == "modules.builtin" else b""
            member = tarfile.TarInfo(f"./6.12.0/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    scratch = directory / "scratch"
    scratch.mkdir()
    return {
        "PATH": f"{tools}:{os.environ['PATH']}",
        "FAKE_RESULT": str(result),
        "TMPDIR": str(scratch),
    }
