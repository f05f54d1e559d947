"""Git 2.47 (in the guest) goes on where the store wrote, under each fsync method, and back."""

from collections.abc import Iterator

import pytest

from crashsim.machines.protocol import Guest
from tests.support.impl_command import METHODS
from tests.support.store_guest import EMPTY, SITE, run_script, store_guest

pytestmark = pytest.mark.vm

PREAMBLE = f"""
method=$2
impl() {{ python3 -m impl -c core.fsync=all -c core.fsyncMethod=$method "$@"; }}
sound() {{ # git finds nothing wrong, and both see the same
    git fsck --strict --full --no-dangling >&2 || fail "fsck: $1"
    if [ -e .git/objects/pack/multi-pack-index ]; then
        git multi-pack-index verify >&2 || fail "midx: $1"
    fi
    git rev-list --objects --all --no-object-names | sort >/tmp/walked
    git rev-list --objects --all --no-object-names --use-bitmap-index | sort >/tmp/by-bitmap
    diff /tmp/walked /tmp/by-bitmap >&2 || fail "< walked, > by bitmap: $1"
    (git for-each-ref; git stash list; git ls-files -s) >/tmp/git
    printf '%s\\n' "it for-each-ref" "it stash list" "it ls-files -s" >/tmp/look
    python3 {SITE}/lines.py $method /tmp/look >/tmp/impl
    diff /tmp/git /tmp/impl >&2 || fail "< git, > impl: $1"
}}
write() {{ # PROGRAM NAME: everything that a program can write, in a repository that is there
    sed "s/NAME/$2/g" <{SITE}/everything >/tmp/everything
    case $1 in
    impl) python3 {SITE}/lines.py $method /tmp/everything ;;
    git) (echo 'it() {{ git "$@"; }}'; cat /tmp/everything) | sh -e ;;
    esac
}}
"""
EVERYTHING = """
for number in 1 2 3 4 5; do mkdir -p NAME/$number; seq $number 90 >NAME/$number/file; done
it add --all
it commit -q -m "NAME: files"
it tag -a -m "NAME: tag" NAME-tag
printf '%s\\n' "create refs/heads/NAME/a HEAD" "create refs/heads/NAME/b HEAD" >/tmp/refs
it update-ref --stdin </tmp/refs
it repack -q -a -d -b
echo changed >NAME/1/file; echo new >NAME/untracked
it stash push -q -u -m "NAME: stash"
echo changed >NAME/2/file
it commit -q -a -m "NAME: changed"
it repack -q -d
it multi-pack-index write --no-progress
it multi-pack-index repack --no-progress --batch-size=0
it multi-pack-index expire --no-progress
it pack-refs --all --prune
echo again >NAME/3/file
it commit -q -a -m "NAME: again"
it switch -q -c NAME/c
"""
LINES = """
import io, shlex, subprocess, sys
from impl.cli import main
method, script = sys.argv[1:]
options = ["-c", "core.fsync=all", "-c", "core.fsyncMethod=" + method]
for line in open(script):
    words = shlex.split(line)
    if words[:1] != ["it"]:
        subprocess.run(["sh", "-ec", line], check=True)
        continue
    if words[-1].startswith("<"):
        sys.stdin = open(words.pop()[1:])
    code = main([*options, *words[1:]])
    if code:
        sys.exit(f"{line}: {code}")
"""
"""The store's commands in one process: Python's start is most of a command's time in a guest."""


@pytest.fixture(scope="module")
def guest() -> Iterator[Guest]:
    with store_guest() as started:
        started.write_file(f"{SITE}/everything", EVERYTHING.encode())
        started.write_file(f"{SITE}/lines.py", LINES.encode())
        yield started


def run(guest: Guest, script: str, *words: str) -> None:
    run_script(guest, PREAMBLE + script, *words)


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("hash_name", "method"),
    [*(("sha1", method) for method in METHODS), ("sha256", "batch"), ("sha256", "paired-syncfs")],
)
def test_git_goes_on_where_the_store_wrote(guest: Guest, hash_name: str, method: str) -> None:
    script = f"""
    {EMPTY} impl init -q -b main --object-format=$1
    write impl first
    sound "written by impl"
    git stash pop -q; git stash push -q -u; git commit -q --allow-empty -m "by git"
    git repack -q -a -d -b; git pack-refs --all; git gc -q --prune=now
    sound "gone on with by git"
    """
    run(guest, script, hash_name, method)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("hash_name", ["sha1", "sha256"])
def test_the_store_goes_on_where_git_wrote(guest: Guest, hash_name: str) -> None:
    script = f"""
    {EMPTY} git init -q -b main --object-format=$1
    write git first
    sound "written by git"
    impl stash pop -q; impl stash push -q -u; impl commit -q --allow-empty -m "by impl"
    impl gc -q --prune=now
    sound "gone on with by impl"
    write git second
    git gc -q --prune=now
    sound "gone on with by git"
    """
    run(guest, script, hash_name, "paired-syncfs")


@pytest.mark.timeout(300)
def test_the_check_can_fail(guest: Guest) -> None:
    script = f"""
    {EMPTY} impl init -q -b main
    write impl first
    for pack in .git/objects/pack/*.pack; do
        chmod u+w $pack
        printf x | dd of=$pack bs=1 seek=40 conv=notrunc status=none
    done
    if (sound "damaged") 2>/dev/null; then fail "nobody noticed"; fi
    """
    run(guest, script, "sha1", "batch")
