"""Container images from files: what `docker save` writes, an OCI layout, or a plain root directory.

Nothing of an image is run or unpacked on the host. Its layers are joined into one archive, entry by
entry, and that is unpacked in a guest. Sources: the OCI image specification (image-layout.md,
layer.md, config.md), and the `manifest.json` of docker-save(1), whose files since Docker 25 are an
OCI layout, too.
"""

import gzip
import json
import posixpath
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from crashsim.workloads.container_root import BadImage, ContainerRoot, inside

ARCHIVE_BYTES_MAX = 1 << 30
JSON_BYTES_MAX = 4 << 20


@dataclass(frozen=True, slots=True)
class ImageConfig:
    """How an image wants to be run: the `config` of the OCI image configuration.

    :ivar user: `UID:GID`; names have been looked up in the image.
    """

    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    directory: str = "/"
    user: str = "0:0"
    volumes: tuple[str, ...] = ()


def join_image(source: Path, target: IO[bytes], mount_points: Sequence[str]) -> ImageConfig:
    """Write the root file system of the image in `source` to `target`, as one tar archive.

    :param mount_points: absolute paths that are directories in it afterwards, made where missing.

    Raises BadImage: no image, larger than fits, entries that reach outside of it, or a mount point
    that is no directory in it.
    """
    with ExitStack() as stack:
        try:
            if source.is_dir() and not (source / "oci-layout").exists():
                root = ContainerRoot(stack)
                root.add_directory(source)
                config = ImageConfig()
            else:
                files = stack.enter_context(_open_files(source))
                raw, layers = _find_image(files)
                root = ContainerRoot(stack)
                for layer in layers:
                    root.add_layer(stack.enter_context(_decompressed(files.open(layer), layer)))
                config = _config(raw, root)
            for path in mount_points:
                root.add_mount_point(path)
            root.write(target)
        except (tarfile.TarError, EOFError, gzip.BadGzipFile) as error:
            raise BadImage(f"{source}: a damaged archive: {error}") from error
        except OSError as error:
            raise BadImage(f"{source}: cannot be read: {error.strerror or error}") from error
    return config


class _Files:
    """The files of an image, by their names in it: a directory or a tar archive."""

    def __init__(self, source: Path, archive: tarfile.TarFile | None) -> None:
        self._source = source
        self._archive = archive
        self._members = {} if archive is None else {inside(one.name): one for one in archive}

    def __contains__(self, name: str) -> bool:
        return name in self._members if self._archive else (self._source / name).is_file()

    def open(self, name: str) -> IO[bytes]:
        """Raises BadImage where there is no such file."""
        name = inside(name)
        if self._archive is None:
            path = self._source / name
            if path.is_file() and path.resolve().is_relative_to(self._source.resolve()):
                return path.open("rb")
        elif name in self._members:
            # docker-save(1) of old has equal layers as links.
            member = self._members[name]
            if member.issym():
                linked = posixpath.join(posixpath.dirname(name), member.linkname)
                member = self._members.get(inside(linked), member)
            if member.isreg() and (content := self._archive.extractfile(member)) is not None:
                return content
        raise BadImage(f"{self._source}: the image has no file {name}")

    def json(self, name: str) -> Any:
        with self.open(name) as file:
            content = file.read(JSON_BYTES_MAX + 1)
        try:
            if len(content) > JSON_BYTES_MAX:
                raise ValueError("it is too long")
            return json.loads(content)
        except (ValueError, RecursionError) as error:
            raise BadImage(f"{self._source}: {name} is no JSON: {error}") from error


@contextmanager
def _open_files(source: Path) -> Iterator[_Files]:
    if source.is_dir():
        yield _Files(source, None)
        return
    with (
        _decompressed(source.open("rb"), str(source)) as file,
        tarfile.open(fileobj=file, mode="r:") as archive,
    ):
        yield _Files(source, archive)


def _find_image(files: _Files) -> tuple[Mapping[str, Any], list[str]]:
    """The configuration and the names of the layers, lowest first. Raises BadImage."""
    try:
        if "manifest.json" in files:
            (image,) = files.json("manifest.json")
            return files.json(str(image["Config"])), [str(layer) for layer in image["Layers"]]
        if "index.json" in files:
            (descriptor,) = files.json("index.json")["manifests"]
            manifest = files.json(_blob(descriptor))
            config = files.json(_blob(manifest["config"]))
            return config, [_blob(layer) for layer in manifest["layers"]]
    except (KeyError, TypeError) as error:
        raise BadImage(f"the image's manifest makes no sense: {error}") from error
    except ValueError as error:
        raise BadImage("there are several images in it, or none: save one alone") from error
    raise BadImage("neither manifest.json nor index.json in it: is it a docker save or OCI layout?")


def _blob(descriptor: Mapping[str, Any]) -> str:
    algorithm, _, digest = str(descriptor["digest"]).partition(":")
    return f"blobs/{algorithm}/{digest}"


@contextmanager
def _decompressed(file: IO[bytes], name: str) -> Iterator[IO[bytes]]:
    """The file's content, which can be read from anywhere at no cost."""
    with file:
        start = file.read(4)
        file.seek(0)
        if start == b"\x28\xb5\x2f\xfd":
            raise BadImage(f"{name} is compressed by zstd: save the image without")
        if not start.startswith(b"\x1f\x8b"):
            yield file
            return
        with tempfile.TemporaryFile() as content, gzip.open(file) as packed:
            while piece := packed.read(1 << 20):
                content.write(piece)
                if content.tell() > ARCHIVE_BYTES_MAX:
                    raise BadImage(f"{name} is larger than {ARCHIVE_BYTES_MAX >> 20} MiB unpacked")
            content.seek(0)
            yield content


def _config(raw: Mapping[str, Any], root: ContainerRoot) -> ImageConfig:
    try:
        config = raw.get("config") or {}
        return ImageConfig(
            entrypoint=_words(config.get("Entrypoint")),
            command=_words(config.get("Cmd")),
            environment=_words(config.get("Env")),
            directory=str(config.get("WorkingDir") or "/"),
            user=_user(str(config.get("User") or ""), root),
            volumes=tuple(sorted(map(str, config.get("Volumes") or {}))),
        )
    except (AttributeError, TypeError) as error:
        raise BadImage(f"the image's configuration makes no sense: {error}") from error


def _words(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or any(not isinstance(word, str) for word in value):
        raise TypeError(f"{value!r} is no list of words")
    if any("\0" in word for word in value):
        raise TypeError("NUL in a word")
    return tuple(value)


def _user(user: str, root: ContainerRoot) -> str:
    """`USER` as numbers: `name`, `name:group`, `uid` or `uid:gid` (config.md)."""
    name, _, group = user.partition(":")
    if not name:
        return "0:0"
    gid = "0"
    if not name.isdecimal():
        fields = _account(root.read_text("etc/passwd"), name)
        name, gid = fields[2], fields[3]
    if group:
        gid = group if group.isdecimal() else _account(root.read_text("etc/group"), group)[2]
    if not (name.isdecimal() and gid.isdecimal()):
        raise BadImage(f"the image's user {user!r} has no number")
    return f"{name}:{gid}"


def _account(table: str, name: str) -> list[str]:
    for line in table.splitlines():
        fields = line.split(":")
        if fields[0] == name and len(fields) >= 4:
            return fields
    raise BadImage(f"the image runs as {name!r}, whom its /etc does not know")
