"""Container images made from nothing: what `docker save` writes, and OCI layouts."""

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Layer = Mapping[str, "bytes | tarfile.TarInfo"]
"""Path -> a file's content, or an entry of another type."""


def directory(path: str, mode: int = 0o755, uid: int = 0, gid: int = 0) -> tarfile.TarInfo:
    member = tarfile.TarInfo(path)
    member.type, member.mode, member.uid, member.gid = tarfile.DIRTYPE, mode, uid, gid
    return member


def link(path: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    member = tarfile.TarInfo(path)
    member.type, member.linkname = kind, target
    return member


def layer_archive(layer: Layer) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path, content in layer.items():
            if isinstance(content, tarfile.TarInfo):
                archive.addfile(content)
                continue
            member = tarfile.TarInfo(path)
            member.size, member.mode = len(content), 0o755
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def saved(path: Path, layers: Sequence[Layer], **config: Any) -> Path:
    """A file as `docker save` of old writes it: manifest.json and a directory for each layer."""
    files = {f"layer{number}/layer.tar": layer_archive(one) for number, one in enumerate(layers)}
    files["config.json"] = json.dumps({"config": config}).encode()
    manifest = [{"Config": "config.json", "RepoTags": ["app:1"], "Layers": [*files][:-1]}]
    files["manifest.json"] = json.dumps(manifest).encode()
    path.write_bytes(layer_archive(files))
    return path


def oci_layout(path: Path, layers: Sequence[Layer], **config: Any) -> Path:
    """A directory with an OCI layout, its layers compressed by gzip."""
    blobs = path / "blobs" / "sha256"
    blobs.mkdir(parents=True)

    def put(content: bytes) -> dict[str, str]:
        digest = hashlib.sha256(content).hexdigest()
        (blobs / digest).write_bytes(content)
        return {"digest": f"sha256:{digest}"}

    manifest = {
        "config": put(json.dumps({"config": config}).encode()),
        "layers": [put(gzip.compress(layer_archive(one))) for one in layers],
    }
    (path / "index.json").write_text(
        json.dumps({"manifests": [put(json.dumps(manifest).encode())]})
    )
    (path / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    return path


NOTE_APP = b"""#!/.crashsim/busybox sh
# Keeps a note in its volume, with syncs if it is `careful`; `verify` checks it.
set -e
b=/.crashsim/busybox
case ${1:-} in
verify)
    while read -r promise; do
        kept=$($b cat /data/note || true)
        [ "$kept" = "$promise" ] || { echo "lost: $promise"; exit 1; }
    done <"$CRASHSIM_PROMISES"
    exit 0 ;;
careful) sync="$b sync" ;;
*) sync=true ;;
esac
echo version 2 >/data/note.new
$sync /data/note.new
$b mv /data/note.new /data/note
$sync /data
crashsim-mark version 2
"""
"""A program for an image from scratch: shell and marks are those that every container gets."""
