"""The operations of `store_operations` by dulwich: a program that runs in the guest.

It takes git's words and works in the current directory. Only what an operation needs is imported,
and only below dulwich's porcelain, which would import all the rest: start-up is most of a short
command's time. What dulwich does not have is put together from what it has:

- `stash push -u`: dulwich stashes what is tracked, so the new files are added first;
- `unpack-objects`: dulwich's own takes a pack with its index, and trusts both. Here a pack comes
  from standard input, is checked against its checksum, and its deltas are resolved: as dulwich
  itself takes one into a store that has no packs (`MemoryObjectStore.add_pack`);
- `update-ref --stdin`: one reference after the other, since it has no transaction over several; and
  with a message, without which it would not write the reflogs that git writes.
"""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from io import BytesIO

from dulwich.objects import ObjectID
from dulwich.refs import Ref
from dulwich.repo import Repo, get_user_identity


def _files() -> Iterator[bytes]:
    """The paths of all files of the working tree."""
    for directory, directories, names in os.walk(b"."):
        if b".git" in directories:
            directories.remove(b".git")
        for name in names:
            yield os.path.relpath(os.path.join(directory, name), b".")


def _add(repository: Repo, _: Sequence[str]) -> None:
    repository.get_worktree().stage(list(_files()))


def _commit(repository: Repo, arguments: Sequence[str]) -> None:
    repository.get_worktree().commit(message=os.fsencode(arguments[-1]))


def _stash(repository: Repo, _: Sequence[str]) -> None:
    from dulwich.stash import Stash

    index = repository.open_index()
    repository.get_worktree().stage([path for path in _files() if path not in index])
    Stash(repository).push()


def _unpack_objects(repository: Repo, _: Sequence[str]) -> None:
    from dulwich.pack import PackData, PackInflater

    store = repository.object_store
    with PackData.from_file(BytesIO(sys.stdin.buffer.read()), store.object_format) as pack:
        pack.check()
        for unpacked in PackInflater.for_pack_data(pack, store.get_raw):
            store.add_object(unpacked)


def _repack(repository: Repo, _: Sequence[str]) -> None:
    repository.object_store.pack_loose_objects()


def _update_ref(repository: Repo, _: Sequence[str]) -> None:
    who = get_user_identity(repository.get_config_stack())
    for line in sys.stdin.buffer:
        command, name, value = line.split()
        is_new = repository.refs.add_if_new(
            Ref(name), ObjectID(value), committer=who, message=b"update-ref"
        )
        if command != b"create" or not is_new:
            raise SystemExit(f"cannot {line.decode().strip()}")


_OPERATIONS: dict[str, Callable[[Repo, Sequence[str]], None]] = {
    "add": _add,
    "commit": _commit,
    "stash": _stash,
    "unpack-objects": _unpack_objects,
    "repack": _repack,
    "update-ref": _update_ref,
}


def main(arguments: Sequence[str]) -> None:
    """Run one operation in the repository of the current directory."""
    with Repo(".") as repository:
        _OPERATIONS[arguments[0]](repository, arguments[1:])


if __name__ == "__main__":
    main(sys.argv[1:])
