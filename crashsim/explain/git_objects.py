"""What a loose object of git is, in words."""

import hashlib
import zlib

from crashsim.explain.files import KnownFiles

_BLOB_BYTES_MAX = 16 << 20
_KINDS = (b"blob", b"tree", b"commit", b"tag")


def object_words(content: bytes | None, files: KnownFiles) -> str:
    """`blob of repo/f3.txt`, `commit`; empty for what is no loose object.

    :param content: the file's: a header `KIND SIZE NUL` and the object, deflated (gitformat-loose).
    """
    if content is None:
        return ""
    unpacker = zlib.decompressobj()
    try:
        text = unpacker.decompress(content, _BLOB_BYTES_MAX)
    except zlib.error:
        return ""
    header, found, body = text.partition(b"\0")
    kind = header.partition(b" ")[0]
    if not found or kind not in _KINDS:
        return ""
    names = (
        files.names(hashlib.blake2b(body, digest_size=16).hexdigest()) if kind == b"blob" else ()
    )
    return kind.decode() + (f" of `{names[0]}`" if names else "")
