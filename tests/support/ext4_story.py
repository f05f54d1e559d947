"""A real ext4 and its journal, made without root by e2fsprogs, told as a log.

`debugfs` writes a file into a copy of a fresh filesystem; the metadata blocks that this changed are
then committed to the journal by debugfs's own journal writer. So every byte of the log is
e2fsprogs' own; only the order in which the parts are sent is made up, and is that of jbd2.
"""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from crashsim.disk.image import ImageIndex
from crashsim.disk.log import Log
from crashsim.disk.log_writer import LogWriter
from crashsim.disk.request import Operation, Request
from crashsim.disk.state import CrashState
from crashsim.explain.files import Snapshot
from crashsim.machines.tree import Tree
from crashsim.workloads.marks import END, START, step_mark
from tests.support.host_tree import changed_tree

BLOCK = 4096
SIZE = 32 << 20
STEP = "save-1"
PATH = "repo/precious"
CONTENT = b"what was promised\n" * 300
"""Two pages."""


def tools_missing() -> bool:
    """Whether e2fsprogs is not installed."""
    return not all(map(shutil.which, ("mkfs.ext4", "debugfs")))


@dataclass(frozen=True)
class Images:
    """ext4 before the file was written, after it, and with the change in its journal only."""

    base: bytes
    after: bytes
    journaled: bytes
    homes: list[int]
    """The blocks that the journal carries, in its order."""


def make_images(directory: Path) -> Images:
    """Make the filesystem and write `CONTENT` to `PATH`."""
    base, after, journaled = (directory / name for name in ("base", "after", "journaled"))
    with base.open("wb") as file:
        file.truncate(SIZE)
    _run(
        *("mkfs.ext4", "-q", "-F", "-b", str(BLOCK), "-J", "size=4", "-O", "metadata_csum,64bit"),
        *("-E", "lazy_itable_init=0,nodiscard,hash_seed=63726173-6873-496d-8000-000000000000"),
        str(base),
    )
    _debugfs(base, "mkdir repo")
    shutil.copy(base, after)
    content = directory / "content"
    content.write_bytes(CONTENT)
    _debugfs(after, f"write {content} {PATH}")
    old, new = base.read_bytes(), after.read_bytes()
    changed = [at for at in range(0, SIZE, BLOCK) if old[at : at + BLOCK] != new[at : at + BLOCK]]
    homes = [at // BLOCK for at in changed if new[at : at + BLOCK] not in _pages()]
    blocks = directory / "blocks"
    blocks.write_bytes(b"".join(new[home * BLOCK : (home + 1) * BLOCK] for home in homes))
    shutil.copy(base, journaled)
    _debugfs(
        journaled,
        "journal_open -c -v 3",
        f"journal_write -b {','.join(map(str, homes))} {blocks}",
        "journal_close",
    )
    return Images(old, new, journaled.read_bytes(), homes)


def _pages() -> list[bytes]:
    return [CONTENT[at : at + BLOCK].ljust(BLOCK, b"\0") for at in range(0, len(CONTENT), BLOCK)]


@dataclass(frozen=True)
class Story:
    """A log: the file's metadata is committed, its data is sent later.

    :ivar journal: the writes of the journal's superblock, descriptor, copies and commit block.
    :ivar data: the writes of the file's two pages.
    :ivar committed: the cut just after the commit is durable.
    """

    log: Log
    journal: list[int]
    data: list[int]
    committed: int

    @property
    def index(self) -> ImageIndex:
        return ImageIndex(self.log)

    @property
    def snapshots(self) -> list[Snapshot]:
        before = Tree({})
        return [
            Snapshot("prepare", before),
            Snapshot(STEP, changed_tree(before, {PATH: CONTENT})),
        ]


def tell(
    directory: Path, images: Images, unrelated: bytes = b"", *, committed_first: bool = False
) -> Story:
    """Write the story's log.

    :param unrelated: data that another process wrote and fsynced, which is what forced the commit.
    :param committed_first: the commit comes before the step that is said to have made the file.
    """
    journal: list[int] = []
    with LogWriter(directory, SIZE) as writer:

        def write(at: int, data: bytes, *, fua: bool = False) -> int:
            number = writer.submit(Request(Operation.WRITE, at, len(data), fua, data))
            writer.complete(number)
            return number

        def flush() -> None:
            writer.complete(writer.submit(Request(Operation.FLUSH)))

        for at in range(0, SIZE, BLOCK):
            if any(images.base[at : at + BLOCK]):
                write(at, images.base[at : at + BLOCK])
        flush()
        writer.mark(START)
        if not committed_first:
            writer.mark(step_mark(STEP))
        if unrelated:
            write(SIZE - BLOCK, unrelated.ljust(BLOCK, b"\0"))
        changed = _changed(images.base, images.journaled)
        for at in changed:
            last = at == changed[-1]
            if last:
                flush()
            journal.append(write(at, images.journaled[at : at + BLOCK], fua=last))
        committed = writer.event_count
        if committed_first:
            writer.mark(step_mark(STEP))
        pages = [
            at for at in _changed(images.base, images.after) if at // BLOCK not in images.homes
        ]
        data = [write(at, images.after[at : at + BLOCK]) for at in pages]
        writer.mark(END)
        flush()
    return Story(Log.open(directory), journal, data, committed)


def _changed(old: bytes, new: bytes) -> list[int]:
    """Places of blocks that differ, ext4's superblock left out."""
    return [at for at in range(BLOCK, SIZE, BLOCK) if old[at : at + BLOCK] != new[at : at + BLOCK]]


def lost(story: Story) -> CrashState:
    """The state in which the commit is durable and the data was sent and lost."""
    requests = story.log.requests
    return CrashState(int(requests.completed_at[story.data[-1]]) + 1, frozenset(story.data))


def _debugfs(image: Path, *commands: str) -> None:
    _run("debugfs", "-w", "-f", "-", str(image), stdin="\n".join(commands))


def _run(*argv: str, stdin: str = "") -> str:
    done = subprocess.run(argv, input=stdin, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout
