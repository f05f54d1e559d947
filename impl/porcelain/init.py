"""`init [-q] [--bare] [--object-format=…] [--ref-format=…] [-b BRANCH] [DIRECTORY]`."""

from impl.config_syntax import format_entry
from impl.context import Context
from impl.durability.components import Component
from impl.errors import RepositoryExists, UsageError
from impl.objects.hashes import algorithm_named
from impl.options import parse_options
from impl.refs.names import full_branch_name
from impl.repository import Location, Repository, is_git_directory

_USAGE = (
    "usage: refgit init [-q] [--bare] [--object-format=sha1|sha256] [--ref-format=files|reftable] "
    "[-b BRANCH] [DIRECTORY]"
)
_DIRECTORIES = ("objects/info", "objects/pack", "refs/heads", "refs/tags")
_REFTABLE_HEAD = b"ref: refs/heads/.invalid\n"
_REFTABLE_HEADS = b"this repository uses the reftable format\n"


def run(context: Context, arguments: list[str]) -> int:
    """Create an empty repository. An existing one keeps everything that it has."""
    options = parse_options(
        arguments,
        _USAGE,
        flags="quiet|q bare",
        values="object-format ref-format initial-branch|b template",
    )
    if len(options.rest) > 1:
        raise UsageError(_USAGE)
    directory = context.path(options.rest[0]) if options.rest else context.directory
    directory = directory.rstrip("/") or "/"
    is_bare = "bare" in options.flags
    git_directory = directory if is_bare else f"{directory}/.git"
    hash_name = options.value("object-format") or context.environment.get("GIT_DEFAULT_HASH")
    algorithm = algorithm_named(hash_name or "sha1")
    ref_format = options.value("ref-format") or "files"
    if ref_format not in ("files", "reftable"):
        raise UsageError(f"fatal: unknown ref storage format '{ref_format}'")
    branch = full_branch_name(options.value("initial-branch") or "main")
    existed = is_git_directory(context.port, git_directory)
    if existed:
        _check_same(context, git_directory, options.value("object-format"))
    else:
        location = Location(git_directory, None if is_bare else directory)
        config = _config(is_bare, algorithm.name, ref_format)
        _create(context, location, config, ref_format, branch)
    if "quiet" not in options.flags:
        how = "Reinitialized existing" if existed else "Initialized empty"
        context.print(f"{how} Git repository in {git_directory}/")
    return 0


def _check_same(context: Context, git_directory: str, hash_name: str | None) -> None:
    location = Location(git_directory, None)
    there = Repository(context.port, location, context.overrides, context.environment)
    if hash_name not in (None, there.algorithm.name):
        raise RepositoryExists("attempt to reinitialize repository with different hash")


def _config(is_bare: bool, hash_name: str, ref_format: str) -> bytes:
    extended = hash_name != "sha1" or ref_format != "files"
    text = "[core]\n" + format_entry("repositoryformatversion", "1" if extended else "0")
    text += format_entry("filemode", "true") + format_entry("bare", str(is_bare).lower())
    if not is_bare:
        text += format_entry("logallrefupdates", "true")
    if extended:
        text += "[extensions]\n"
        if hash_name != "sha1":
            text += format_entry("objectformat", hash_name)
        if ref_format != "files":
            text += format_entry("refstorage", ref_format)
    return text.encode()


def _create(
    context: Context, location: Location, config: bytes, ref_format: str, branch: str
) -> None:
    """Everything but the references: HEAD comes last, for it makes the directory a repository."""
    git_directory = location.git_directory
    repository = Repository(context.port, location, context.overrides, context.environment)
    with repository.transaction() as transaction:
        transaction.names.make_directories(git_directory)
        for name in _DIRECTORIES if ref_format == "files" else _DIRECTORIES[:2]:
            transaction.names.make_directories(f"{git_directory}/{name}")
        transaction.write(Component.OTHER, f"{git_directory}/config", config)
        if ref_format == "files":
            head = b"ref: %s\n" % branch.encode()
        else:
            transaction.write(Component.OTHER, f"{git_directory}/refs/heads", _REFTABLE_HEADS)
            transaction.names.make_directories(f"{git_directory}/reftable")
            transaction.write(Component.REFERENCE, f"{git_directory}/reftable/tables.list", b"")
            head = _REFTABLE_HEAD
        transaction.write(Component.OTHER, f"{git_directory}/HEAD", head)
    if ref_format == "reftable":
        _point_head(context, location, branch)


def _point_head(context: Context, location: Location, branch: str) -> None:
    from impl.identity import identity
    from impl.refs.values import RefUpdate, Symbolic

    environment = {
        "GIT_COMMITTER_NAME": "refgit",
        "GIT_COMMITTER_EMAIL": "refgit",
        **context.environment,
    }
    repository = Repository(context.port, location, context.overrides, environment)
    with repository.transaction() as transaction:
        update = RefUpdate("HEAD", Symbolic(branch), no_deref=True)
        repository.references.apply(transaction, [update], identity(repository, "committer"))
