"""`update-index [--add] [--remove] [--force-remove] [--cacheinfo …] [--refresh] [--stdin] …`."""

import os
from collections.abc import Iterator

from impl.context import Context
from impl.errors import InvalidInput, MissingPath, UsageError
from impl.index import LockedIndex
from impl.index_entry import IndexEntry
from impl.objects.model import MODE_COMMIT, MODE_EXECUTABLE, MODE_FILE, MODE_LINK
from impl.options import Options, parse_options
from impl.paths import check_path, printable, relative_path, unquoted
from impl.staging import Stager

_USAGE = (
    "usage: refgit update-index [--add] [--remove] [--force-remove] [--replace] [--refresh] [-q] "
    "[--cacheinfo MODE,OBJECT,PATH] [--index-info] [--index-version N] [--[no-]assume-unchanged] "
    "[--[no-]skip-worktree] [--stdin [-z]] [FILE...]"
)
_MODES = (MODE_FILE, MODE_EXECUTABLE, MODE_LINK, MODE_COMMIT)
_MARKS = {"assume-unchanged", "no-assume-unchanged", "skip-worktree", "no-skip-worktree"}
_FLAGS = (
    "add remove force-remove replace refresh really-refresh q stdin z index-info verbose "
    "assume-unchanged no-assume-unchanged skip-worktree no-skip-worktree info-only"
)


def run(context: Context, arguments: list[str]) -> int:
    """Change single paths of the index, all of them in one transaction."""
    options = parse_options(
        _join_cacheinfo(arguments), _USAGE, flags=_FLAGS, values="cacheinfo index-version chmod"
    )
    repository = context.repository
    with repository.transaction():
        locked = LockedIndex(repository)
        index = locked.index
        stager = Stager(repository, index)
        if (version := options.value("index-version")) is not None:
            if version not in ("2", "3", "4"):
                raise UsageError(f"fatal: index-version {version} not in range: 2..4")
            index.changed = index.changed or index.version != int(version)
            index.version = int(version)
        if options.flags & {"refresh", "really-refresh"}:
            modified = stager.work_tree.refresh(index)
        else:
            modified = []
        for information in options.values.get("cacheinfo", ()):
            _add_cacheinfo(context, stager, information, options)
        if "index-info" in options.flags:
            _read_index_info(context, stager)
        for path in _paths(context, options):
            _update(stager, path, options.flags)
        locked.store()
    if modified and "q" not in options.flags:
        for entry in modified:
            context.print(f"{printable(entry.path)}: needs update")
        return 1
    return 0


def _join_cacheinfo(arguments: list[str]) -> list[str]:
    """The old form, `--cacheinfo MODE OBJECT PATH`, as the new one with commas."""
    joined: list[str] = []
    waiting = list(arguments)
    while waiting:
        argument = waiting.pop(0)
        joined.append(argument)
        if argument == "--cacheinfo" and len(waiting) >= 3 and "," not in waiting[0]:
            joined.append(",".join(waiting[:3]))
            del waiting[:3]
    return joined


def _paths(context: Context, options: Options) -> Iterator[bytes]:
    """The files named by arguments and, with --stdin, by input: relative to the root."""
    work_tree = context.repository.work_tree
    names = list(options.rest)
    if "stdin" in options.flags:
        separator = b"\0" if "z" in options.flags else b"\n"
        for line in context.input.read().split(separator):
            if line:
                try:
                    names.append(os.fsdecode(line if "z" in options.flags else unquoted(line)))
                except ValueError as error:
                    raise InvalidInput(f"line is badly quoted: {error}") from None
    for name in names:
        if work_tree is None:
            raise UsageError("fatal: this operation must be run in a work tree")
        path = relative_path(work_tree, context.path(name))
        check_path(path)
        yield path


def _update(stager: Stager, path: bytes, flags: frozenset[str]) -> None:
    index = stager.index
    if "force-remove" in flags:
        index.remove(path)
        return
    if flags & _MARKS:
        entry = index.get(path)
        if entry is None:
            raise MissingPath(f"Unable to mark file {printable(path)}")
        index.add(_marked(entry, flags))
        return
    if stager.work_tree.lstat(path) is None:
        if "remove" not in flags:
            raise MissingPath(f"{printable(path)}: does not exist and --remove not passed")
        index.remove(path)
        return
    if not index.has_path(path) and "add" not in flags:
        raise MissingPath(f"{printable(path)}: cannot add to the index - missing --add option?")
    stager.add(path)


def _marked(entry: IndexEntry, flags: frozenset[str]) -> IndexEntry:
    if flags & {"assume-unchanged", "no-assume-unchanged"}:
        entry = entry._replace(assume_valid="assume-unchanged" in flags)
    if flags & {"skip-worktree", "no-skip-worktree"}:
        entry = entry._replace(skip_worktree="skip-worktree" in flags)
    return entry


def _add_cacheinfo(context: Context, stager: Stager, information: str, options: Options) -> None:
    mode, _, rest = information.partition(",")
    name, _, path = rest.partition(",")
    raw = os.fsencode(path)
    if not stager.index.has_path(raw) and "add" not in options.flags:
        raise MissingPath(f"{path}: cannot add to the index - missing --add option?")
    stager.index.add(_entry(context, mode, name, raw, 0))


def _entry(context: Context, mode: str, name: str, path: bytes, stage: int) -> IndexEntry:
    check_path(path)
    algorithm = context.repository.algorithm
    if not algorithm.is_name(name) or mode.strip("01234567") or not mode:
        raise InvalidInput(f"malformed index info: {mode} {name} {printable(path)}")
    number = int(mode, 8)
    if number & 0o170000 == 0o100000:
        number = MODE_EXECUTABLE if number & 0o100 else MODE_FILE
    if number not in _MODES:
        raise InvalidInput(f"git update-index: --cacheinfo cannot add {printable(path)}")
    return IndexEntry(path, number, name, stage=stage)


def _read_index_info(context: Context, stager: Stager) -> None:
    """Lines as `ls-files -s`, `ls-tree` and older forms print them; mode 0 removes."""
    for raw in context.input.read().split(b"\n"):
        if not raw:
            continue
        head, tab, quoted_path = raw.partition(b"\t")
        fields = head.decode("ascii", "replace").split(" ")
        try:
            path = unquoted(quoted_path)
        except ValueError as error:
            raise InvalidInput(f"malformed index info {raw!r}: {error}") from None
        if len(fields) == 3 and fields[1] in ("blob", "tree", "commit"):
            fields = [fields[0], fields[2]]
        if (
            not tab
            or len(fields) not in (2, 3)
            or fields[2:] not in ([], ["0"], ["1"], ["2"], ["3"])
        ):
            raise InvalidInput(f"malformed index info {raw!r}")
        if not fields[0].strip("0"):
            stager.index.remove(path)
            continue
        stage = int(fields[2]) if len(fields) == 3 else 0
        stager.index.add(_entry(context, fields[0], fields[1], path, stage))
