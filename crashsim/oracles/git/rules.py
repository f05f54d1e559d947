"""Every rule of the git oracle: its name, the property that it stands for, and what git does.

Names are stable: findings of one (property, rule) are one kind of finding, and bundles hold them.
What git does was tried with git 2.39 and 2.47 on hand-damaged repositories (tests/interop).
"""

from dataclasses import dataclass

from crashsim.oracles.git.damage import DamageKind
from crashsim.oracles.protocol import Property, Violation


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.

    :ivar meaning: when it is broken.
    :ivar git_reaction: what git does with such a repository.
    """

    name: str
    property: Property
    meaning: str
    git_reaction: str


RECOVERABLE, INTACT = Property.RECOVERABLE, Property.INTACT
DURABLE, ATOMIC, USABLE = Property.DURABLE, Property.ATOMIC, Property.USABLE

_ROOTS = {
    "ref": "a ref or HEAD reaches an object that is {damage}",
    "stash": "a stash entry reaches an object that is {damage}",
    "index": "the index names an object that is {damage}",
    "reflog": "a reflog entry reaches an object that is {damage}",
    "cache-tree": "the index's cached trees reach an object that is {damage}",
}
_REACTIONS = {
    "ref": "log, checkout or commit fail; fsck tells",
    "stash": "stash pop or show fails for that entry; fsck tells",
    "index": "commit refuses (missing) or commits a broken tree (poisoned); fsck tells",
    "reflog": "fsck tells; gc may fail; the old value cannot be brought back",
    "cache-tree": "a missing tree is written again by the next commit, a bad one is trusted",
}


def _object_rules() -> list[Rule]:
    return [
        Rule(f"{root}-object-{damage}", INTACT, meaning.format(damage=damage), _REACTIONS[root])
        for root, meaning in _ROOTS.items()
        for damage in DamageKind
    ]


_RULES = [
    Rule(
        "repository-unrecognised",
        RECOVERABLE,
        "the git directory has no HEAD that parses, no refs/ or no objects/",
        "every command: not a git repository",
    ),
    Rule(
        "config-unreadable",
        RECOVERABLE,
        "the config does not parse, or its repository format version is no number",
        "every command: bad config line",
    ),
    Rule(
        "config-extensions-lost",
        RECOVERABLE,
        "the config no longer names extensions (hash, ref storage) that it named before",
        "git opens it in the wrong format: refs and objects cannot be read",
    ),
    Rule(
        "packed-refs-unreadable",
        RECOVERABLE,
        "packed-refs does not parse",
        "every command that reads refs: unexpected or unterminated line in packed-refs",
    ),
    Rule(
        "reftable-unreadable",
        RECOVERABLE,
        "tables.list does not parse, or a table that it lists is missing or damaged",
        "no ref can be read: no commits yet",
    ),
    Rule(
        "midx-fatal",
        RECOVERABLE,
        "a multi-pack-index is damaged so that git gives up instead of doing without",
        "every command that reads objects: multi-pack-index signature does not match",
    ),
    Rule(
        "shallow-unreadable",
        RECOVERABLE,
        "the shallow file does not parse",
        "every command that reads history: bad shallow line",
    ),
    Rule("ref-empty", INTACT, "a ref's file is empty", "the ref is broken; for-each-ref skips it"),
    Rule(
        "ref-zeroed", INTACT, "a ref's file is all NUL", "the ref is broken; for-each-ref skips it"
    ),
    Rule(
        "ref-corrupt",
        INTACT,
        "a ref's file holds neither an object name nor `ref:`",
        "the ref is broken; for-each-ref skips it",
    ),
    Rule(
        "ref-wrong-type",
        INTACT,
        "a branch or HEAD names an object that is no commit",
        "log and commit fail; fsck: not a commit",
    ),
    Rule(
        "head-dangling",
        INTACT,
        "HEAD points to a branch that is not there and was not promised, "
        "in no state of the history",
        "status: no commits yet; commit makes a new root commit",
    ),
    Rule(
        "packed-refs-empty",
        INTACT,
        "packed-refs is empty: git always writes at least a header",
        "all packed refs vanish silently",
    ),
    Rule(
        "packed-refs-corrupt",
        INTACT,
        "packed-refs is not sorted as it says, or a peeled value is wrong",
        "lookups miss refs or give wrong peeled objects, silently",
    ),
    Rule(
        "reftable-list-empty",
        INTACT,
        "tables.list is empty or not there: even a new repository has one table",
        "the repository looks unborn, silently",
    ),
    Rule("index-empty", INTACT, "the index is empty", "index file smaller than expected"),
    Rule("index-zeroed", INTACT, "the index is all NUL", "bad signature 0x00000000"),
    Rule(
        "index-corrupt",
        INTACT,
        "the index does not parse, or its checksum is wrong",
        "fails, or (checksum alone) goes on silently; fsck tells",
    ),
    Rule(
        "shared-index-missing",
        INTACT,
        "a split index names a shared index that is missing or damaged",
        "every command that reads the index fails",
    ),
    Rule(
        "reflog-corrupt",
        INTACT,
        "a reflog has a line, other than a cut-off last one, that does not parse",
        "the line is skipped silently",
    ),
    Rule(
        "pack-index-damaged",
        INTACT,
        "a .idx with its .pack beside it does not parse or has a bad checksum",
        "index file is too small or the like at every command; its objects cannot be read",
    ),
    Rule(
        "pack-damaged",
        INTACT,
        "a .pack with its .idx beside it does not verify",
        "some or all of its objects cannot be read; fsck tells",
    ),
    Rule(
        "midx-wrong",
        INTACT,
        "a multi-pack-index that git accepts contradicts its packs",
        "objects are not found, or read from the wrong place",
    ),
    Rule(
        "rev-wrong",
        INTACT,
        "a .rev file that git accepts contradicts its pack",
        "wrong object sizes and packs; fsck tells from 2.42 on",
    ),
    Rule(
        "bitmap-wrong",
        INTACT,
        "a .bitmap that git accepts has a bad checksum or is for another pack",
        "wrong answers to what is reachable, silently",
    ),
    Rule(
        "commit-graph-wrong",
        INTACT,
        "a commit-graph that git accepts contradicts the commits",
        "wrong parents, trees or dates, silently",
    ),
    Rule(
        "repository-lost",
        DURABLE,
        "the git directory, promised before, is not there",
        "not a git repository",
    ),
    Rule(
        "head-lost",
        DURABLE,
        "HEAD has an older value than promised, or none",
        "the branch or commit that was switched to is not checked out",
    ),
    Rule("ref-lost", DURABLE, "a promised ref value is gone or an older one is back", "silent"),
    Rule("ref-resurrected", DURABLE, "a ref whose deletion was promised is back", "silent"),
    Rule("stash-lost", DURABLE, "a promised stash entry is gone", "stash list is shorter"),
    Rule("stash-resurrected", DURABLE, "a dropped stash entry is back", "silent"),
    Rule("index-lost", DURABLE, "the index has older entries than promised, or is gone", "silent"),
    Rule("reflog-lost", DURABLE, "promised reflog entries are gone", "silent"),
    Rule("reflog-resurrected", DURABLE, "reflog entries removed by promise are back", "silent"),
    Rule("config-lost", DURABLE, "the config has older settings than promised, or none", "silent"),
    Rule("head-unknown", ATOMIC, "HEAD has a value that it never had", "silent"),
    Rule("ref-unknown", ATOMIC, "a ref has a value that it never had", "silent"),
    Rule(
        "transaction-torn",
        ATOMIC,
        "of the refs that one transaction changes, some are new and some old",
        "silent",
    ),
    Rule("stash-unknown", ATOMIC, "the stash list was never like this", "silent"),
    Rule("index-unknown", ATOMIC, "the index has entries that it never had", "silent"),
    Rule("reflog-unknown", ATOMIC, "a reflog has entries that it never had", "silent"),
    Rule("config-unknown", ATOMIC, "the config has settings that it never had", "silent"),
    Rule(
        "poisoned-object",
        USABLE,
        "a visible loose object file is bad, reachable or not, with no good copy in a pack",
        "adding the same content again says 0 and leaves it bad, silently",
    ),
    Rule(
        "reflog-cut-off",
        USABLE,
        "a reflog ends within a line (or in NUL bytes)",
        "ignored now, but the next entry is glued to it and lost too, silently",
    ),
    Rule(
        "packed-refs-new-left",
        USABLE,
        "packed-refs.new, a temporary file that is no lock, is left over",
        "pack-refs, gc and branch -d fail from then on; git does not say what to do about it",
    ),
    Rule(
        "pseudoref-broken",
        USABLE,
        "ORIG_HEAD or its like does not parse",
        "reset and merge complain, go on, and leave it broken",
    ),
    Rule("add-failed", USABLE, "`git add --all` fails on the recovered repository", "says why"),
    Rule(
        "added-object-unreadable",
        USABLE,
        "after `git add --all` an object that the index names cannot be read",
        "add says 0; a later checkout, commit or gc fails",
    ),
    Rule("commit-failed", USABLE, "`git commit` fails on the recovered repository", "says why"),
    Rule("pack-refs-failed", USABLE, "`git pack-refs` fails on a whole repository", "says why"),
    Rule("repack-failed", USABLE, "`git repack -a -d` fails on a whole repository", "says why"),
    Rule(
        "packing-lost-refs",
        USABLE,
        "refs of a whole repository are gone after `git pack-refs` and `git repack`",
        "silent",
    ),
    Rule(
        "fsck-complains",
        INTACT,
        "fsck finds something, even after packing, where the in-process checker found nothing",
        "fsck tells",
    ),
    *_object_rules(),
]

RULES = {rule.name: rule for rule in _RULES}
"""Every rule by its name."""


def violation(rule: str, subject: str, detail: str) -> Violation:
    """A violation of the named rule."""
    return Violation(RULES[rule].property, rule, subject, detail)
