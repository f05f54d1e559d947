"""Names at a crash, with changes applied that never came after each other."""

from crashsim.model.namespace import Namespace
from crashsim.model.operations import Entry, Slot
from crashsim.model.tree import ROOT_INODE, Directory, Tree

BASE = Tree.of({"d/x": b"", "f": b""})
D, X, F = (BASE.inodes[path] for path in ("d", "d/x", "f"))
NEW = 90


def names(*entries: Entry) -> dict[str, int]:
    namespace = Namespace(BASE)
    twin = namespace.copy()
    for entry in entries:
        namespace.apply(entry)
    assert twin.paths == dict(BASE.inodes)
    return namespace.paths


def test_a_directory_takes_what_is_in_it_along() -> None:
    moved = Entry(0, D, "", Slot(ROOT_INODE, "d"), Slot(ROOT_INODE, "e"), is_directory=True)
    made = Entry(1, NEW, "", added=Slot(D, "y"))
    assert names(moved, made) == {"f": F, "e": D, "e/x": X, "e/y": NEW}


def test_what_is_put_into_a_directory_without_a_name_cannot_be_seen() -> None:
    taken = Entry(0, NEW, "", added=Slot(ROOT_INODE, "d"), created=Directory(), is_directory=True)
    lost = Entry(1, 91, "", added=Slot(D, "y"))
    assert names(taken, lost) == {"f": F, "d": NEW}


def test_what_a_lost_directory_holds_appears_with_its_name() -> None:
    early = Entry(0, 91, "", added=Slot(NEW, "y"))
    late = Entry(1, NEW, "", added=Slot(D, "z"), created=Directory(), is_directory=True)
    assert names(early, late) == dict(BASE.inodes) | {"d/z": NEW, "d/z/y": 91}


def test_the_digest_is_the_sum_of_the_weights() -> None:
    namespace = Namespace(BASE)
    namespace.weigh(lambda path, inode: len(path) * inode)
    entry = Entry(0, D, "", Slot(ROOT_INODE, "d"), Slot(ROOT_INODE, "long"), is_directory=True)
    namespace.apply(entry)
    assert namespace.digest == F + 4 * D + 6 * X
    namespace.apply(Entry(1, F, "", removed=Slot(ROOT_INODE, "f")))
    namespace.apply(Entry(2, F, "", removed=Slot(ROOT_INODE, "gone")))
    assert namespace.digest == 4 * D + 6 * X
