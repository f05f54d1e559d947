"""`branch`: list, create and delete branches. See git-branch(1)."""

import sys

from impl.context import Context
from impl.errors import InvalidName, StoreError, UsageError
from impl.options import Options, parse_options
from impl.porcelain.for_each_ref import described_references
from impl.porcelain.ref_changes import change_references
from impl.porcelain.ref_format import RefFormat
from impl.porcelain.reflog_edit import commits_from
from impl.refs.names import full_branch_name, matches_pattern
from impl.refs.store import resolve
from impl.refs.values import ABSENT, Action, RefUpdate, Symbolic
from impl.repository import Repository
from impl.revisions import find_of_type

_USAGE = (
    "usage: refgit branch [--list] [--format=FORMAT] [PATTERN...]\n"
    "   or: refgit branch --show-current\n"
    "   or: refgit branch [-f] NAME [START]\n"
    "   or: refgit branch (-d | -D) [-q] NAME..."
)
_BRANCHES = "refs/heads/"
_ABBREVIATION = 7


class BranchRefused(StoreError):
    """A branch is not created or deleted: it exists, is checked out, or is not merged."""


def run(context: Context, arguments: list[str]) -> int:
    """List, create or delete; exits with 1 if a branch could not be deleted."""
    options = parse_options(
        arguments,
        _USAGE,
        flags="list|l delete|d D force|f quiet|q show-current all|a create-reflog",
        values="format",
    )
    if "show-current" in options.flags:
        return _show_current(context)
    if options.flags & {"delete", "D"}:
        return _delete_all(context, options)
    if options.rest and "list" not in options.flags:
        _create(context.repository, options)
        return 0
    return _list(context, options)


def _show_current(context: Context) -> int:
    head = context.repository.references.read("HEAD")
    if isinstance(head, Symbolic):
        context.print(head.target.removeprefix(_BRANCHES))
    return 0


def _list(context: Context, options: Options) -> int:
    repository = context.repository
    form = options.value("format")
    filled = RefFormat(form or "%(HEAD) %(refname:short)")
    head = repository.references.read("HEAD")
    if form is None and isinstance(head, str):
        context.print(f"* (HEAD detached at {head[:_ABBREVIATION]})")
    for described in described_references(context, repository, _BRANCHES):
        short = described.name.removeprefix(_BRANCHES)
        if options.rest and not any(matches_pattern(short, one) for one in options.rest):
            continue
        context.print(filled.fill(described))
    return 0


def _create(repository: Repository, options: Options) -> None:
    if len(options.rest) > 2:
        raise UsageError(_USAGE)
    short, start = options.rest[0], options.rest[1] if len(options.rest) == 2 else "HEAD"
    name = full_branch_name(short)
    commit = find_of_type(repository, start, "commit")
    exists = repository.references.read(name) is not None
    is_forced = "force" in options.flags
    if exists and not is_forced:
        raise BranchRefused(f"a branch named '{short}' already exists")
    if exists and repository.references.read("HEAD") == Symbolic(name):
        raise BranchRefused(f"cannot force update the branch '{short}': it is checked out")
    head = repository.references.read("HEAD")
    if start == "HEAD" and isinstance(head, Symbolic):
        start = head.target.removeprefix(_BRANCHES)
    verb = "Reset to" if exists else "Created from"
    old = None if is_forced else ABSENT
    message = f"branch: {verb} {start}"
    change_references(repository, [RefUpdate(name, commit, old, message, create_reflog=True)])


def _delete_all(context: Context, options: Options) -> int:
    if not options.rest:
        raise UsageError("fatal: branch name required")
    code = 0
    is_forced = bool(options.flags & {"D", "force"})
    for short in options.rest:
        try:
            commit = _delete(context.repository, short, is_forced=is_forced)
        except (BranchRefused, InvalidName) as error:
            sys.stderr.write(f"error: {error}\n")
            code = 1
            continue
        if "quiet" not in options.flags:
            context.print(f"Deleted branch {short} (was {commit[:_ABBREVIATION]}).")
    return code


def _delete(repository: Repository, short: str, *, is_forced: bool) -> str:
    """Delete a branch; what it named. Raises BranchRefused, InvalidReferenceName, LockHeld."""
    references = repository.references
    name = full_branch_name(short)
    value = references.read(name)
    if value is None:
        raise BranchRefused(f"branch '{short}' not found")
    if references.read("HEAD") == Symbolic(name):
        raise BranchRefused(f"cannot delete branch '{short}': it is checked out")
    if isinstance(value, str) and not is_forced:
        head = resolve(references, "HEAD").object_name
        if head is None or value not in commits_from(repository, [head]):
            raise BranchRefused(
                f"the branch '{short}' is not fully merged: if you are sure that you want to "
                f"delete it, run 'branch -D {short}'"
            )
    change_references(repository, [RefUpdate(name, None, value, "", Action.DELETE, no_deref=True)])
    return value if isinstance(value, str) else value.target
