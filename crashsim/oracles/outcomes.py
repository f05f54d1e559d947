"""What became of a few files, in a few words: how small programs and litmus tests are judged.

The programs write blocks of one repeated letter, so that every mixture of old, new and nothing can
be told from a file's content alone.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType

from crashsim.machines.tree import NodeKind, Tree

WORDS: Mapping[str, str] = MappingProxyType(
    {"old": "o", "new": "n", "more": "m", "last": "l", "zeros": "\0"}
)
"""What a run of one letter is called -> the letter."""

MISSING, EMPTY, UNREADABLE = "missing", "empty", "unreadable"

_NAMES = {letter.encode(): word for word, letter in WORDS.items()}
_RUN = re.compile(rb"(.)\1*", re.DOTALL)


def outcome(files: Sequence[str], look: Callable[[str], str]) -> str:
    """What became of `files`: one word where there is one, else `a=new b=missing`.

    :param look: what became of the file of a name, in one word.
    """
    if len(files) == 1:
        return look(files[0])
    return " ".join(f"{name}={look(name)}" for name in files)


def look_in(tree: Tree, directory: str, block_bytes: int) -> Callable[[str], str]:
    """How to look at the files below a directory of a recovered tree.

    :param block_bytes: how much one write writes; see `describe`.
    """

    def look(name: str) -> str:
        path = f"{directory}/{name}"
        node = tree.nodes.get(path)
        if node is None:
            return MISSING
        if node.digest.startswith("error:"):
            return UNREADABLE
        if node.kind is not NodeKind.FILE:
            return node.kind.value
        content = tree.read(path)
        return UNREADABLE if content is None else describe(content, block_bytes)

    return look


@lru_cache(maxsize=4096)
def describe(content: bytes, block_bytes: int) -> str:
    """A content as the runs of letters in it: `new`, `old+new`, `old+zeros`, `new×2`.

    Where a run is no whole number of blocks, it is `torn` and what is in it: `torn(new,old)`. What
    no program ever wrote is `garbage`.
    """
    if not content:
        return EMPTY
    runs = [(_NAMES.get(match[1], "garbage"), len(match[0])) for match in _RUN.finditer(content)]
    if any(length % block_bytes for _, length in runs):
        return f"torn({','.join(sorted({word for word, _ in runs}))})"
    return "+".join(
        word if length == block_bytes else f"{word}×{length // block_bytes}"
        for word, length in runs
    )
