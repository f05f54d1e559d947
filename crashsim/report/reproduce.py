"""The parts of a finding that every kind of report says in the same words."""

import shlex

from crashsim.campaigns.results import Finding, WriteNote
from crashsim.report.words import bytes_in_words, counted


def repro_command(finding: Finding, bundle: str | None = None) -> str:
    """The command that replays a finding, to be pasted into a shell.

    :param bundle: the bundle's path where it is known better than the finding does.
    """
    return shlex.join(["crashsim", "repro", bundle or finding.bundle or f"{finding.id}.crashsim"])


def notes_by_write(finding: Finding) -> dict[int, WriteNote]:
    """The finding's notes by request number; the first one where there are several."""
    notes: dict[int, WriteNote] = {}
    for note in finding.writes:
        notes.setdefault(note.write, note)
    return notes


def needed_writes(finding: Finding) -> list[tuple[str, int]]:
    """(how it was lost, request number) of every write that the crash lost, the needed ones first.

    "lost" writes are needed: each of them, restored alone, makes the violation go away.
    """
    torn = {torn.write for torn in finding.torn}
    needed = sorted(set(finding.needed))
    others = sorted({*finding.dropped, *torn} - set(needed))
    return [
        *((("torn" if write in torn else "lost"), write) for write in needed),
        *((("torn" if write in torn else "also lost"), write) for write in others),
    ]


def write_in_words(finding: Finding, write: int) -> str:
    """`write 7: data of .git/objects/1f/3a9c (4 KiB at 512 MiB; kept 3 units)`."""
    note = notes_by_write(finding).get(write)
    words = f"write {write:,}"
    details = []
    if note is not None:
        words += f": {note.what}"
        details.append(
            f"{bytes_in_words(note.length_bytes)} at {bytes_in_words(note.offset_bytes)}"
        )
    details += [
        f"only {counted(len(torn.kept_units), 'unit')} reached the disk"
        for torn in finding.torn
        if torn.write == write
    ]
    return f"{words} ({'; '.join(details)})" if details else words
