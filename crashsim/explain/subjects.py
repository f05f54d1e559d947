"""Which file a finding is about, which content it should have, and what recovery found there."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from crashsim.explain.files import KnownFiles, Version
from crashsim.machines.tree import NodeKind, Tree
from crashsim.oracles.protocol import Violation

_WORD = re.compile(r"[^\s:,;'\"`()]+")
_OBJECT_NAME = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_MOUNT_POINT = re.compile(r"^/mnt/\d+/")


@dataclass(frozen=True, slots=True)
class Subject:
    """The file that a finding is about.

    :ivar path: relative to the filesystem's root.
    :ivar expected: the content that it was to have; None where no snapshot has the file.
    :ivar found: what recovery found, in words, after "`path` "; empty without a recovered tree.
    :ivar right: the recovered file has just the expected content.
    """

    path: str
    expected: Version | None
    found: str
    right: bool = False


def subject_paths(
    violation: Violation, files: KnownFiles, git_directories: Sequence[str]
) -> list[str]:
    """The files that a violation may be about, likeliest first.

    Its subject may be a path relative to the filesystem's root, or a name of git (`HEAD`, `index`,
    `refs/heads/main`, `logs/HEAD`, an object's name) in one of `git_directories`; else its detail
    may name a file.
    """
    subject = violation.subject.strip("/")
    candidates = [subject]
    for directory in git_directories:
        candidates.append(f"{directory}/{subject}")
        if _OBJECT_NAME.fullmatch(subject):
            candidates.append(f"{directory}/objects/{subject[:2]}/{subject[2:]}")
        if subject == "refs/stash":
            candidates.append(f"{directory}/logs/refs/stash")  # the older entries of the list
        if subject.startswith("refs/") or subject == "HEAD":
            candidates += [f"{directory}/packed-refs", f"{directory}/reftable/tables.list"]
    candidates += [_MOUNT_POINT.sub("", word) for word in _WORD.findall(violation.detail)]
    return [path for path in dict.fromkeys(candidates) if path in files.paths]


def differing_paths(
    recovered: Tree, files: KnownFiles, begun: Sequence[str], below: str = ""
) -> list[str]:
    """The files that are missing or hold what they never held, by a recovered tree.

    :param begun: the names of the steps that had begun when the power failed, in order.
    """
    found: list[str] = []
    for path, versions in files.paths.items():
        known = [version for version in versions if version.step in begun]
        if not known or not path.startswith(below):
            continue
        node = recovered.nodes.get(path)
        if node is None and not files.is_there(path, begun[-1]):
            continue  # deleted since
        if node is None or node.digest not in {version.digest for version in known}:
            found.append(path)
    return found


def describe(
    path: str,
    expected: Version | None,
    files: KnownFiles,
    begun: Sequence[str],
    recovered: Tree | None,
) -> Subject:
    """Compare a recovered file with the contents that it is known to have had.

    :param begun: the names of the steps that had begun when the power failed.
    """
    known = [version for version in files.paths.get(path, ()) if version.step in begun]
    if recovered is None:
        return Subject(path, expected, "")
    node = recovered.nodes.get(path)
    if node is None:
        return Subject(path, expected, "is missing")
    if node.kind is not NodeKind.FILE:
        return Subject(path, expected, f"is a {node.kind.value}")
    if expected is not None and node.digest == expected.digest:
        return Subject(path, expected, "has the right content", right=True)
    for version in reversed(known):
        if version.digest == node.digest:
            found = f"has its content of step `{version.step}`"
            return Subject(path, expected, f"{found} ({node.size_bytes} bytes)")
    content = recovered.contents.get(node.digest)
    wanted = files.content(expected.digest) if expected is not None else None
    return Subject(path, expected, _damage(node.size_bytes, content, wanted, expected))


def _damage(
    size_bytes: int, content: bytes | None, wanted: bytes | None, expected: Version | None
) -> str:
    if expected is None:
        size = f"{size_bytes} bytes"
    elif size_bytes == expected.size_bytes:
        size = f"the right number of bytes, {size_bytes},"
    else:
        size = f"{size_bytes} bytes instead of {expected.size_bytes}"
    if size_bytes == 0:
        return f"is empty ({size})"
    if content is not None and not content.strip(b"\0"):
        return f"holds {size} and nothing but zeroes"
    if content is None or wanted is None:
        return f"holds {size} in no known version"
    if wanted.startswith(content):
        return f"ends after {size_bytes} of {len(wanted)} bytes"
    first = next(
        (at for at, (a, b) in enumerate(zip(content, wanted, strict=False)) if a != b),
        min(len(content), len(wanted)),
    )
    wrong = "wrong ones" if content[first:].strip(b"\0") else "zeroes"
    return f"holds {size} with {wrong} from byte {first} on"
