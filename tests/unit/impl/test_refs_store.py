"""Both formats behave alike: updates, their conditions, reflogs, symbolic references, packing."""

from pathlib import Path

import pytest

from impl.errors import LockHeld, ObjectMissing, StoreError
from impl.refs.errors import (
    InvalidReferenceName,
    NameConflict,
    ReferenceChanged,
    ReferenceMissing,
    SymbolicLoop,
    UnsupportedUpdate,
)
from impl.refs.store import resolve, resolve_existing
from impl.refs.values import (
    ABSENT,
    RefUpdate,
    Symbolic,
    create,
    delete,
    verify,
    write,
)
from tests.support.refs_repository import FORMATS, WHO, RefsRepository

MAIN = "refs/heads/main"


@pytest.fixture(params=[(form, name) for form in FORMATS for name in ("sha1", "sha256")])
def refs(request: pytest.FixtureRequest, tmp_path: Path) -> RefsRepository:
    return RefsRepository(tmp_path / "repo", *request.param)


def test_born_with_head_only(refs: RefsRepository) -> None:
    assert refs.values() == {"HEAD": Symbolic(MAIN)}
    assert resolve(refs.references, "HEAD") == (MAIN, None)
    with pytest.raises(ReferenceMissing, match="HEAD"):
        resolve_existing(refs.references, "HEAD")


def test_update_through_head_is_logged_for_both(refs: RefsRepository) -> None:
    first, second = refs.commits[:2]
    refs.apply(create("HEAD", first, message="commit (initial):\n\tone "))
    refs.apply(write("HEAD", second, first, message="two"))
    assert refs.references.read(MAIN) == second
    assert refs.references.read("HEAD") == Symbolic(MAIN)
    for name in ("HEAD", MAIN):
        assert refs.messages(name) == [b"commit (initial): one", b"two"]
    entries = refs.references.reflog(MAIN)
    null = refs.repository.algorithm.null
    assert [(one.old, one.new) for one in entries] == [(null, first), (first, second)]
    assert {one.who for one in entries} == {WHO}
    assert refs.references.reflog_names() == ["HEAD", MAIN]


def test_update_of_the_current_branch_is_logged_for_head(refs: RefsRepository) -> None:
    refs.apply(create(MAIN, refs.commits[0], message="one"))
    refs.apply(create("refs/heads/side", refs.commits[0], message="side"))
    assert refs.messages("HEAD") == [b"one"]


def test_update_to_the_same_value_is_logged_for_head_only(refs: RefsRepository) -> None:
    refs.apply(create(MAIN, refs.commits[0], message="one"))
    refs.apply(write("HEAD", refs.commits[0], message="again"))
    assert refs.messages(MAIN) == [b"one"]
    assert refs.messages("HEAD") == [b"one", b"again"]


def test_tags_and_other_references_have_no_reflog_unless_wanted(refs: RefsRepository) -> None:
    refs.apply(create("refs/tags/a", refs.commits[0]))
    refs.apply(RefUpdate("refs/x/b", refs.commits[0], message="b", create_reflog=True))
    refs.apply(write("refs/x/b", refs.commits[1], message="it has one"))
    assert not refs.references.has_reflog("refs/tags/a")
    assert refs.messages("refs/x/b") == [b"b", b"it has one"]


def test_detached_head(refs: RefsRepository) -> None:
    refs.apply(create(MAIN, refs.commits[0], message="one"))
    refs.apply(RefUpdate("HEAD", refs.commits[1], message="away", no_deref=True))
    assert refs.references.read("HEAD") == refs.commits[1]
    assert refs.references.read(MAIN) == refs.commits[0]
    refs.apply(RefUpdate("HEAD", Symbolic(MAIN), message="back", no_deref=True))
    assert refs.references.read("HEAD") == Symbolic(MAIN)
    last = refs.references.reflog("HEAD")[-1]
    assert (last.old, last.new, last.message) == (refs.commits[1], refs.commits[0], b"back")


def test_pointing_head_to_nothing_is_not_logged(refs: RefsRepository) -> None:
    refs.apply(RefUpdate("HEAD", Symbolic("refs/heads/new"), message="m", no_deref=True))
    assert refs.references.reflog("HEAD") == []


REFUSED = [
    (create(MAIN, "1"), ReferenceChanged, "already exists"),
    (write(MAIN, "1", "1"), ReferenceChanged, "but expected"),
    (write("refs/heads/no", "1", "1"), ReferenceChanged, "unable to resolve"),
    (delete(MAIN, "1"), ReferenceChanged, "but expected"),
    (verify(MAIN, ABSENT), ReferenceChanged, "already exists"),
    (verify("refs/heads/no", "0"), ReferenceChanged, "unable to resolve"),
    (verify(MAIN, Symbolic("refs/x/y"), no_deref=True), ReferenceChanged, "regular ref"),
    (verify("HEAD", Symbolic("refs/x/y"), no_deref=True), ReferenceChanged, "another target"),
    (create("refs/heads/main/x", "1"), NameConflict, "refs/heads/main"),
    (create("refs/heads", "1"), NameConflict, "refs/heads"),
    (create("refs/heads/../x", "1"), InvalidReferenceName, "not a valid"),
    (create("config", "1"), InvalidReferenceName, "not a valid"),
    (create("refs/heads/x", Symbolic("../x")), InvalidReferenceName, "not a valid"),
    (RefUpdate(MAIN), UnsupportedUpdate, "new value"),
    (write(MAIN, "null"), UnsupportedUpdate, "null"),
    (write(MAIN, "tree"), UnsupportedUpdate, "has to be a commit"),
    (write(MAIN, "missing"), ObjectMissing, "not in this repository"),
    (write(MAIN, "short"), UnsupportedUpdate, "full name"),
]


@pytest.mark.parametrize(("update", "error", "message"), REFUSED)
def test_refused_with_everything_else(
    refs: RefsRepository, update: RefUpdate, error: type[StoreError], message: str
) -> None:
    refs.apply(create(MAIN, refs.commits[0], message="one"))
    before, logs = refs.values(), refs.messages("HEAD")
    values = {
        "0": refs.commits[0],
        "1": refs.commits[1],
        "null": refs.repository.algorithm.null,
        "tree": refs.repository.objects.commit(refs.commits[0]).tree,
        "missing": "e" * refs.repository.algorithm.hex_length,
        "short": "abc",
    }
    new = values[update.new] if isinstance(update.new, str) else update.new
    old = values[update.old] if isinstance(update.old, str) else update.old
    other = create("refs/heads/other", refs.commits[2], message="other")
    with pytest.raises(error, match=message):
        refs.apply(other, update._replace(new=new, old=old))
    assert refs.values() == before
    assert refs.messages("HEAD") == logs
    assert refs.leftovers() == []
    refs.apply(other)


def test_no_reference_twice(refs: RefsRepository) -> None:
    refs.apply(create(MAIN, refs.commits[0]))
    for first, second in ((MAIN, MAIN), (MAIN, "HEAD"), ("HEAD", MAIN), ("HEAD", "HEAD")):
        with pytest.raises(UnsupportedUpdate, match="multiple updates"):
            refs.apply(write(first, refs.commits[1]), write(second, refs.commits[2]))
    assert refs.references.read(MAIN) == refs.commits[0]


def test_conflicting_names_in_one_transaction(refs: RefsRepository) -> None:
    for names in (("refs/heads/a", "refs/heads/a/b"), ("refs/heads/a/b", "refs/heads/a")):
        with pytest.raises(NameConflict):
            refs.apply(*(create(name, refs.commits[0]) for name in names))
    assert refs.leftovers() == []


def test_deleted_names_are_free_again(refs: RefsRepository) -> None:
    refs.apply(create("refs/heads/a/b/c", refs.commits[0]))
    refs.apply(delete("refs/heads/a/b/c"))
    refs.apply(create("refs/heads/a", refs.commits[0], message="a"))
    assert refs.messages("refs/heads/a") == [b"a"]
    refs.apply(delete("refs/heads/a"))
    refs.apply(create("refs/heads/a/b", refs.commits[0], message="b"))
    assert refs.messages("refs/heads/a/b") == [b"b"]


@pytest.mark.parametrize("is_packed", [False, True])
def test_deletion_takes_the_reflog_along(refs: RefsRepository, is_packed: bool) -> None:
    refs.apply(create("refs/heads/a", refs.commits[0], message="old"))
    refs.apply(create("refs/heads/b", refs.commits[0]))
    if is_packed:
        refs.pack()
    refs.apply(delete("refs/heads/a", refs.commits[0]))
    assert refs.references.read("refs/heads/a") is None
    assert not refs.references.has_reflog("refs/heads/a")
    refs.apply(create("refs/heads/a", refs.commits[1], message="new"))
    assert refs.messages("refs/heads/a") == [b"new"]
    assert refs.references.read("refs/heads/b") == refs.commits[0]
    assert refs.leftovers() == []


def test_deleting_what_is_not_there_changes_nothing(refs: RefsRepository) -> None:
    before = refs.values()
    refs.apply(delete("refs/heads/no"))
    assert refs.values() == before


def test_symbolic_chains_and_loops(refs: RefsRepository) -> None:
    refs.apply(create("refs/heads/a", refs.commits[0]))
    for number in range(4):
        target = f"refs/x/s{number - 1}" if number else "refs/heads/a"
        refs.apply(RefUpdate(f"refs/x/s{number}", Symbolic(target), no_deref=True))
    refs.apply(write("refs/x/s3", refs.commits[1]))
    assert resolve(refs.references, "refs/x/s3") == ("refs/heads/a", refs.commits[1])
    refs.apply(RefUpdate("refs/x/l", Symbolic("refs/x/m"), no_deref=True))
    refs.apply(RefUpdate("refs/x/m", Symbolic("refs/x/l"), no_deref=True))
    with pytest.raises(SymbolicLoop):
        resolve(refs.references, "refs/x/l")
    with pytest.raises((SymbolicLoop, UnsupportedUpdate)):
        refs.apply(write("refs/x/l", refs.commits[0]))
    refs.apply(delete("refs/x/l", Symbolic("refs/x/m"), no_deref=True))
    assert refs.references.read("refs/x/l") is None


def test_packing_changes_no_value(refs: RefsRepository) -> None:
    refs.apply(create(MAIN, refs.commits[0], message="m"), create("refs/tags/v1", refs.tag))
    refs.apply(RefUpdate("refs/x/sym", Symbolic(MAIN), no_deref=True))
    for number in range(30):
        refs.apply(create(f"refs/heads/b/{number}", refs.commits[number % 4]))
    before = refs.values()
    refs.pack()
    assert refs.values() == before
    assert refs.messages(MAIN) == [b"m"]
    assert list(refs.references.verify()) == []
    refs.apply(write("refs/heads/b/3", refs.commits[0]))
    assert refs.references.read("refs/heads/b/3") == refs.commits[0]
    refs.pack()
    assert refs.values() == {**before, "refs/heads/b/3": refs.commits[0]}
    assert refs.leftovers() == []


def test_listing_by_prefix_in_byte_order(refs: RefsRepository) -> None:
    names = ["refs/heads/a", "refs/heads/a-b", "refs/heads/a.b/c", "refs/heads/b", "refs/tags/é"]
    refs.apply(*(create(name, refs.commits[0]) for name in reversed(names)))
    refs.pack()
    refs.apply(create("refs/heads/a0", refs.commits[0]))
    expected = [*names[:3], "refs/heads/a0", *names[3:]]
    assert [name for name, _ in refs.references.list()] == expected
    assert [name for name, _ in refs.references.list("refs/heads/a")] == expected[:4]
    assert [name for name, _ in refs.references.list("refs/tags/")] == names[-1:]
    assert [name for name, _ in refs.references.list("refs/no/")] == []


def test_another_process_sees_it_at_once(refs: RefsRepository) -> None:
    other = refs.open().references
    assert other.read(MAIN) is None
    for commit in refs.commits:
        refs.apply(write(MAIN, commit))
        assert other.read(MAIN) == commit
        refs.pack()
        assert other.read(MAIN) == commit
    other.close()


def test_editing_a_reflog(refs: RefsRepository) -> None:
    for number, commit in enumerate(refs.commits):
        refs.apply(write("refs/heads/a", commit, message=str(number)))
    entries = refs.references.reflog("refs/heads/a")
    edited = [entries[0], None, entries[2]._replace(old=entries[0].new), entries[3]]
    with refs.repository.transaction() as transaction:
        refs.references.edit_reflog(transaction, "refs/heads/a", entries, edited)
    after = refs.references.reflog("refs/heads/a")
    assert after == [entry for entry in edited if entry is not None]
    with (
        pytest.raises(ReferenceChanged, match="changed meanwhile"),
        refs.repository.transaction() as transaction,
    ):
        refs.references.edit_reflog(transaction, "refs/heads/a", entries, edited)
    with refs.repository.transaction() as transaction:
        refs.references.edit_reflog(transaction, "refs/heads/a", after, [None] * 3)
    assert refs.references.reflog("refs/heads/a") == []
    assert refs.references.has_reflog("refs/heads/a")
    refs.pack()
    assert refs.references.has_reflog("refs/heads/a")
    refs.apply(write("refs/heads/a", refs.commits[0], message="on"))
    assert refs.messages("refs/heads/a") == [b"on"]


def test_operations_of_one_transaction_build_on_each_other(refs: RefsRepository) -> None:
    first, second, third = refs.commits[:3]
    with refs.repository.transaction() as outer:
        refs.references.apply(outer, [create(MAIN, first, message="1")], WHO)
        with refs.repository.transaction() as inner:
            update = write("HEAD", second, first, message="2")
            refs.references.apply(inner, [update, create("refs/stash", third)], WHO)
        assert refs.references.read(MAIN) is None
    assert refs.references.read(MAIN) == second
    assert refs.references.read("refs/stash") == third
    assert refs.messages("HEAD") == [b"1", b"2"]
    assert refs.leftovers() == []


def test_a_reference_that_was_held_for_its_reflog_can_be_written(refs: RefsRepository) -> None:
    with refs.repository.transaction() as outer:
        refs.references.apply(outer, [create(MAIN, refs.commits[0], message="1")], WHO)
        away = RefUpdate("HEAD", refs.commits[1], message="2", no_deref=True)
        refs.references.apply(outer, [away], WHO)
    assert refs.values() == {"HEAD": refs.commits[1], MAIN: refs.commits[0]}
    assert refs.messages("HEAD") == [b"1", b"2"]
    assert refs.leftovers() == []


def test_an_aborted_transaction_leaves_nothing(refs: RefsRepository) -> None:
    refs.apply(create(MAIN, refs.commits[0]))
    before = refs.values()

    class Stop(Exception):
        pass

    def stage_and_stop() -> None:
        with refs.repository.transaction() as transaction:
            updates = [write(MAIN, refs.commits[1]), create("refs/heads/b", refs.commits[1])]
            refs.references.apply(transaction, updates, WHO)
            raise Stop

    with pytest.raises(Stop):
        stage_and_stop()
    assert refs.values() == before
    assert refs.leftovers() == []
    refs.apply(write(MAIN, refs.commits[1]))


def test_a_lock_that_is_held_is_named_and_left(refs: RefsRepository) -> None:
    is_files = refs.repository.reference_format == "files"
    locked = MAIN if is_files else "reftable/tables.list"
    lock = refs.git_directory / f"{locked}.lock"
    lock.write_bytes(b"")
    with pytest.raises(LockHeld, match=str(lock)):
        refs.apply(create("refs/heads/b", refs.commits[0]), create(MAIN, refs.commits[0]))
    assert refs.leftovers() == [lock.name]
    lock.unlink()
    refs.apply(create("refs/heads/b", refs.commits[0]), create(MAIN, refs.commits[0]))
