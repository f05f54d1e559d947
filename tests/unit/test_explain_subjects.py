"""What recovery found of a file, in words."""

import pytest

from crashsim.explain.files import KnownFiles, Snapshot
from crashsim.explain.subjects import describe, differing_paths, subject_paths
from crashsim.machines.tree import Tree
from crashsim.oracles.protocol import Property, Violation
from tests.support.host_tree import changed_tree

EMPTY = Tree({})
OLD = changed_tree(EMPTY, {"f": b"old content", "repo/.git/refs/heads/main": b"1" * 40})
NEW = changed_tree(OLD, {"f": b"new content!", "g": b"g"})
STEPS = ["prepare", "save"]


@pytest.fixture
def files() -> KnownFiles:
    return KnownFiles([Snapshot("prepare", OLD), Snapshot("save", NEW)])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "is missing"),
        (b"", "is empty (0 bytes instead of 12)"),
        (bytes(12), "holds the right number of bytes, 12, and nothing but zeroes"),
        (b"new con" + bytes(5), "holds the right number of bytes, 12, with zeroes from byte 7 on"),
        (b"new conTENT!", "holds the right number of bytes, 12, with wrong ones from byte 7 on"),
        (b"new", "ends after 3 of 12 bytes"),
        (b"new content! and more", "holds 21 bytes instead of 12 with wrong ones from byte 12 on"),
        (b"old content", "has its content of step `prepare` (11 bytes)"),
        (b"new content!", "has the right content"),
    ],
)
def test_each_kind_of_damage(files: KnownFiles, content: bytes | None, words: str) -> None:
    recovered = changed_tree(NEW, {"f": content})

    subject = describe("f", files.paths["f"][-1], files, STEPS, recovered)

    assert subject.found == words
    assert subject.right == (content == b"new content!")


def test_without_a_recovered_tree_nothing_is_said(files: KnownFiles) -> None:
    assert describe("f", files.paths["f"][-1], files, STEPS, None).found == ""


def violation(subject: str, detail: str = "") -> Violation:
    return Violation(Property.INTACT, "rule", subject, detail)


def test_a_ref_of_git_is_found_in_its_repository(files: KnownFiles) -> None:
    found = subject_paths(violation("refs/heads/main"), files, ["repo/.git", "remote.git"])

    assert found == ["repo/.git/refs/heads/main"]


def test_a_missing_object_is_found_by_its_name() -> None:
    path = "repo/.git/objects/ab/" + "c" * 38
    known = KnownFiles([Snapshot("save", changed_tree(OLD, {path: b"an object"}))])

    assert subject_paths(violation("ab" + "c" * 38), known, ["repo/.git"]) == [path]


def test_a_file_that_only_the_detail_names_is_found(files: KnownFiles) -> None:
    detail = "git add fails: error: object file /mnt/0/repo/.git/refs/heads/main is empty"

    found = subject_paths(violation("repo/.git", detail), files, ["repo/.git"])

    assert found == ["repo/.git/refs/heads/main"]


def test_what_differs_from_every_begun_step(files: KnownFiles) -> None:
    recovered = changed_tree(NEW, {"f": b"neither", "g": None})

    assert differing_paths(recovered, files, STEPS) == ["f", "g"]
    assert differing_paths(recovered, files, ["prepare"]) == ["f"]
    assert differing_paths(OLD, files, ["prepare"]) == []
