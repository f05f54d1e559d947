"""Six operations that a git-format store's time is measured by, and what they work on.

Each has a script of preparation, run by real git and not measured, and a command line of git's
words. They follow each other in one repository: what `commit` commits, `add` has added.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass

from crashsim.workloads.git_steps import unique_content

FILES_IN_A_DIRECTORY = 25
BRANCH = "refs/heads/many/"


@dataclass(frozen=True, slots=True)
class StoreSize:
    """How much there is to do.

    :ivar files: that `add` adds and `commit` commits; a tenth of them is changed, and as many new
        ones come, before `stash`.
    :ivar objects: that `unpack-objects` unpacks, at least 3.
    :ivar references: that `update-ref` creates in one transaction.
    """

    files: int = 500
    objects: int = 500
    references: int = 10_000


@dataclass(frozen=True, slots=True)
class StoreOperation:
    """One thing that is measured.

    :ivar prepare: for `sh -e`, in the repository; `$INPUT` is the directory of `input_files`.
    :ivar command: for `sh -e`, in the repository; `$STORE` stands for the program.
    """

    name: str
    prepare: str
    command: str


INIT = "git init -q --template= . && echo base >base.txt && git add . && git commit -q -m base"

MAKE_OBJECTS = """
git init -q --template= "$INPUT/upstream"
cd "$INPUT/upstream"
cp -R "$INPUT/objects/." .
git add --all
git commit -q -m objects
git rev-parse HEAD >"$INPUT/tip"
echo HEAD | git pack-objects -q --revs --stdout >"$INPUT/objects.pack"
"""
"""Makes the pack that `unpack-objects` unpacks; `$INPUT` as in StoreOperation."""

OPERATIONS = (
    StoreOperation("add", 'cp -R "$INPUT/files" .', "$STORE add --all"),
    StoreOperation("commit", "", "$STORE commit -q -m files"),
    StoreOperation("stash", 'cp -R "$INPUT/changes/." files', "$STORE stash push -q -u -m stash"),
    StoreOperation("unpack-objects", "", '$STORE unpack-objects -q <"$INPUT/objects.pack"'),
    StoreOperation(
        "repack",
        'git update-ref refs/heads/unpacked "$(cat "$INPUT/tip")"',
        "$STORE repack -q -a -d",
    ),
    StoreOperation(
        "update-ref",
        'sed "s/HEAD/$(git rev-parse HEAD)/" "$INPUT/references" >"$INPUT/commands"',
        '$STORE update-ref --stdin <"$INPUT/commands"',
    ),
)

VERIFY = f"""
git fsck --full --no-dangling 2>&1
test -z "$(git status --porcelain)"
test "$(git stash list | wc -l)" -eq 1
test "$(git ls-tree -r HEAD files | wc -l)" -eq "$FILES"
test "$(git for-each-ref {BRANCH} | wc -l)" -eq "$REFERENCES"
test "$(find .git/logs/{BRANCH} -type f | wc -l)" -eq "$REFERENCES"
test "$(git count-objects)" = "0 objects, 0 kilobytes"
"""
"""For `sh -e`, in the repository: fails unless all six were done."""


def input_files(size: StoreSize, seed: int) -> Mapping[str, bytes]:
    """What the operations work on, below `$INPUT`: path -> content, no two alike."""
    chooser = random.Random(f"store times:{seed}")
    changed = max(1, size.files // 10)
    paths = [f"{number // FILES_IN_A_DIRECTORY:03}/{number:05}" for number in range(size.files)]
    wanted = [
        *(f"files/{path}" for path in paths),
        *(f"changes/{path}" for path in paths[:: size.files // changed][:changed]),
        *(f"changes/new/{number:05}" for number in range(changed)),
        # A commit and a tree come on top of these.
        *(f"objects/{number:05}" for number in range(size.objects - 2)),
    ]
    lines = "".join(f"create {BRANCH}{number:05} HEAD\n" for number in range(size.references))
    return {
        **{path: unique_content(chooser, number) for number, path in enumerate(wanted)},
        "references": lines.encode(),
    }
