"""objects/info/packs and info/refs: what clients read who can only fetch files."""

from __future__ import annotations

from collections.abc import Sequence

from impl.durability.components import Component
from impl.objects.walk_roots import peeled_references
from impl.repository import Repository
from impl.transaction import RepoTransaction


def stage_server_info(
    repository: Repository, transaction: RepoTransaction, pack_names: Sequence[str]
) -> None:
    """Write both, as update-server-info(1) does.

    :param pack_names: the .pack files that there will be when the transaction ends.
    Raises LockHeld.
    """
    packs = "".join(f"P {name}\n" for name in sorted(pack_names)) + "\n"
    lines = []
    for name, value, peeled in peeled_references(repository):
        lines.append(f"{value}\t{name}\n")
        if peeled is not None:
            lines.append(f"{peeled}\t{name}^{{}}\n")
    directory = repository.git_directory
    references = "".join(lines).encode("utf-8", "surrogateescape")
    transaction.write(Component.SERVER_INFO, f"{directory}/info/refs", references)
    packs_path = f"{directory}/objects/info/packs"
    transaction.write(Component.SERVER_INFO, packs_path, packs.encode("ascii"))
