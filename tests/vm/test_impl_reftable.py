"""Real git 2.47 (in the guest) over reftables of impl, and impl over those of git."""

from collections.abc import Iterator

import pytest

from crashsim.machines.protocol import Guest
from tests.support.store_guest import EMPTY, SITE, run_script, store_guest

pytestmark = pytest.mark.vm

PREAMBLE = """
impl() { python3 -m impl "$@"; }
same() { # both programs see the same references and reflogs, and find nothing wrong
    python3 /opt/impl/show.py >/tmp/impl || fail "impl: $1"
    (
        git for-each-ref --format='%(objectname) %(objecttype) %(refname) %(symref)'
        git show-ref -d; git symbolic-ref HEAD
        for name in HEAD refs/heads/main refs/heads/side; do
            git reflog exists $name || continue
            git reflog show --no-abbrev-commit --format="%H $name %gs" $name --
        done
    ) >/tmp/git
    diff /tmp/git /tmp/impl >&2 || fail "< git, > impl: $1"
    git fsck --strict --full --no-dangling >&2 || fail "fsck: $1"
}
"""
SHOW = """
import os, sys
from impl.context import Context
from impl.durability.port import OsPort
from impl.porcelain import for_each_ref, show_ref, symbolic_ref
context = Context(OsPort(), os.getcwd(), (), dict(os.environ))
form = "%(objectname) %(objecttype) %(refname) %(symref)"
for_each_ref.run(context, ["--format=" + form])
show_ref.run(context, ["-d"])
symbolic_ref.run(context, ["HEAD"])
references = context.repository.references
for name in ("HEAD", "refs/heads/main", "refs/heads/side"):
    for entry in reversed(references.reflog(name)):
        context.print(f"{entry.new} {name} {os.fsdecode(entry.message)}")
context.output.flush()
sys.exit("; ".join(map(str, references.verify())) or 0)
"""
"""What impl sees, from one process: Python's start is most of a command's time in a guest."""

BORN_OF_GIT = "git init -q -b main --ref-format=reftable --object-format=$1 ."
BORN_OF_IMPL = "impl init -q -b main --ref-format=reftable --object-format=$1"
HISTORY = """
for number in 1 2 3 4; do
    echo $number >file; git add file; git commit -q -m "commit $number"
done
git tag -a -m tag v1 HEAD~1
"""


@pytest.fixture(scope="module")
def guest() -> Iterator[Guest]:
    with store_guest() as started:
        started.write_file(f"{SITE}/show.py", SHOW.encode())
        yield started


def run(guest: Guest, script: str, hash_name: str) -> str:
    return run_script(guest, PREAMBLE + script, hash_name)


HASH = "sha1"
"""For what takes minutes under emulation, and is the same for both."""


@pytest.fixture(params=["sha1", "sha256"])
def hash_name(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def test_the_guest_has_the_git_that_is_meant(guest: Guest, hash_name: str) -> None:
    assert run(guest, "git version", hash_name).startswith("git version 2.4")


TURNS = (
    """
    impl update-ref -m "impl: made" refs/heads/side $first
    git update-ref -m "git: moved" refs/heads/side $last $first
    impl update-ref -m "impl: back" refs/heads/side $first $last
    """,
    """
    impl update-ref refs/tags/v2 $(git rev-parse v1)
    impl symbolic-ref refs/remotes/origin/HEAD refs/heads/main
    """,
    'impl symbolic-ref -m "impl: switched" HEAD refs/heads/side',
    """
    git symbolic-ref -m "git: back" HEAD refs/heads/main
    impl reflog delete refs/heads/side@{1}
    """,
    "git reflog expire --expire=all refs/heads/side",
    """
    impl update-ref -m "impl: again" refs/heads/side $last
    impl reflog expire --expire=all refs/heads/side
    git reflog exists refs/heads/side
    """,
    """
    impl update-ref -d refs/heads/side
    if git rev-parse -q --verify refs/heads/side; then fail "not deleted"; fi
    """,
    "git pack-refs",
    """
    impl update-ref refs/heads/side $first
    impl pack-refs
    [ $(wc -l <.git/reftable/tables.list) = 1 ] || fail "not one table"
    """,
    """
    echo more >file; git commit -q -am more; git branch -m side other; git branch -q -D other
    echo x >file; git stash push -q; git stash pop -q; git gc -q
    """,
)
"""What git and impl do, one after the other. Both look at the result of each."""


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("birth", [BORN_OF_GIT, BORN_OF_IMPL], ids=["git", "impl"])
def test_both_write_by_turns(guest: Guest, hash_name: str, birth: str) -> None:
    run(guest, EMPTY + birth + HISTORY + "same start", hash_name)
    for number, turn in enumerate(TURNS):
        commits = "first=$(git rev-parse v1~1) last=$(git rev-parse v1^0)\n"
        run(guest, f"{commits}{turn}\nsame {number}", hash_name)


@pytest.mark.timeout(1800)
def test_many_references_and_deep_indexes(guest: Guest) -> None:
    script = f"""
{EMPTY}{BORN_OF_IMPL}
{HISTORY}
first=$(git rev-parse HEAD~3) last=$(git rev-parse HEAD)
for number in $(seq 3000); do echo "create refs/heads/many/$number $first"; done |
    impl update-ref --stdin
same "3000 references of impl"
[ "$(git rev-parse refs/heads/many/1777)" = $first ] || fail "seek"
for number in $(seq 1 3 3000); do echo "update refs/heads/many/$number $last $first"; done |
    git update-ref --stdin
same "git's updates"
for number in $(seq 2 3 3000); do echo "delete refs/heads/many/$number $first"; done |
    impl update-ref --stdin
same "impl's deletions"
git for-each-ref --points-at=$last | wc -l
"""
    assert int(run(guest, script, HASH)) >= 1000


@pytest.mark.timeout(1800)
def test_a_stack_of_git_s_and_ours_stays_geometric(guest: Guest) -> None:
    script = f"""
{EMPTY}{BORN_OF_GIT}
{HISTORY}
first=$(git rev-parse HEAD~3)
for number in $(seq 8); do
    impl update-ref refs/heads/i$number $first
    git update-ref refs/heads/g$number $first
done
same "16 updates"
[ $(git for-each-ref refs/heads | wc -l) = 17 ] || fail "lost an update"
wc -l <.git/reftable/tables.list
ls .git/reftable | grep -v '^tables.list$' | grep -cv '[.]ref$' || :
"""
    tables, others = run(guest, script, HASH).split()
    assert int(tables) <= 6
    assert int(others) == 0


@pytest.mark.timeout(1800)
def test_both_write_at_once(guest: Guest) -> None:
    script = f"""
{EMPTY}{BORN_OF_GIT}
{HISTORY}
first=$(git rev-parse HEAD~3)
many() {{ # PROGRAM PREFIX: updates until each has been let through
    for number in $(seq 3); do
        until "$1" update-ref refs/heads/$2$number $first 2>/tmp/error-$2; do
            grep -qi lock /tmp/error-$2 || fail "$(cat /tmp/error-$2)"
        done
    done
}}
many impl a & one=$!; many git b & two=$!; many impl c & three=$!; many git d & four=$!
wait $one; wait $two; wait $three; wait $four
[ $(git for-each-ref refs/heads | wc -l) = 13 ] || fail "lost an update"
same "four writers"
"""
    run(guest, script, HASH)
