"""Each way of leaving out a sync, from traces in strace's words."""

import pytest

from crashsim.explain.lineage import EventKind
from crashsim.explain.missing import MissingKind, what_was_missing
from tests.support.strace_text import traced

WRITE = """
10 execve("/usr/bin/prog", ["prog", "save"], 0x1 /* 9 vars */) = 0
10 openat(AT_FDCWD</mnt/0/repo>, "f.tmp", O_WRONLY|O_CREAT|O_EXCL, 0600) = 3</mnt/0/repo/f.tmp>
10 write(3</mnt/0/repo/f.tmp>, "x"..., 9000) = 9000
"""
FSYNC = "10 fsync(3</mnt/0/repo/f.tmp>) = 0\n"
WRITEOUT = "10 sync_file_range(3</mnt/0/repo/f.tmp>, 0, 0, SYNC_FILE_RANGE_WRITE) = 0\n"
RENAME = '10 rename("f.tmp", "f") = 0\n'
LINK = '10 link("f.tmp", "f") = 0\n10 unlink("f.tmp") = 0\n'
DIRECTORY = """10 openat(AT_FDCWD</mnt/0/repo>, ".", O_RDONLY|O_DIRECTORY) = 4</mnt/0/repo>
10 fsync(4</mnt/0/repo>) = 0
"""
FSYNC_LATER = "10 fsync(3</mnt/0/repo/f>) = 0\n"


@pytest.mark.parametrize(
    ("calls", "kind"),
    [
        (WRITE + RENAME, MissingKind.NEVER_SYNCED),
        (WRITE + LINK, MissingKind.NEVER_SYNCED),
        (WRITE + FSYNC + RENAME, MissingKind.DIRECTORY_NOT_SYNCED),
        (WRITE + FSYNC + RENAME + DIRECTORY, MissingKind.NOTHING),
        (WRITE + FSYNC + DIRECTORY + RENAME, MissingKind.DIRECTORY_NOT_SYNCED),
        (WRITE + RENAME + FSYNC_LATER, MissingKind.SYNC_AFTER_PUBLISH),
        (WRITE + WRITEOUT + RENAME, MissingKind.WRITEOUT_ONLY),
        (WRITE + FSYNC + WRITE.splitlines()[3] + "\n" + RENAME, MissingKind.WRITTEN_AFTER_SYNC),
        (WRITE + RENAME + "10 sync() = 0", MissingKind.SYNC_AFTER_PUBLISH),
        (WRITE + "10 sync() = 0\n" + RENAME, MissingKind.DIRECTORY_NOT_SYNCED),
        (WRITE + FSYNC + RENAME + "10 syncfs(5</mnt/0>) = 0", MissingKind.NOTHING),
        (WRITE + FSYNC.replace("= 0", "= -1 EIO (I/O error)") + RENAME, MissingKind.NEVER_SYNCED),
    ],
)
def test_a_file_that_is_renamed_or_linked_into_place(calls: str, kind: MissingKind) -> None:
    missing = what_was_missing(traced(calls), "repo/f")

    assert missing.kind is kind
    assert missing.written_as == "repo/f.tmp"
    assert missing.published is not None
    assert missing.published.command == "prog save"


def test_a_writeout_names_the_sync_of_another_file_that_came_between() -> None:
    other = "10 fsync(5</mnt/0/repo/dummy>) = 0\n"

    missing = what_was_missing(traced(WRITE + WRITEOUT + other + RENAME), "repo/f")

    assert missing.kind is MissingKind.WRITEOUT_ONLY
    assert missing.other_sync is not None
    assert missing.other_sync.path == "repo/dummy"


def test_a_sync_of_another_file_is_no_sync_of_this_one() -> None:
    other = "10 fsync(5</mnt/0/repo/dummy>) = 0\n"

    assert what_was_missing(traced(WRITE + other + RENAME), "repo/f").kind is (
        MissingKind.NEVER_SYNCED
    )


def test_a_file_truncated_in_place() -> None:
    trace = traced(
        """
        10 openat(AT_FDCWD</mnt/0/repo>, "m", O_WRONLY|O_CREAT|O_TRUNC, 0666) = 3</mnt/0/repo/m>
        10 write(3</mnt/0/repo/m>, "x", 1) = 1
        10 fsync(3</mnt/0/repo/m>) = 0
        """,
        existing=("repo/m",),
    )

    assert what_was_missing(trace, "repo/m").kind is MissingKind.TRUNCATED_IN_PLACE


@pytest.mark.parametrize(
    ("existing", "sync", "kind"),
    [
        (("repo/log",), "", MissingKind.IN_PLACE),
        (("repo/log",), "10 fdatasync(3</mnt/0/repo/log>) = 0", MissingKind.NOTHING),
        ((), "10 fdatasync(3</mnt/0/repo/log>) = 0", MissingKind.DIRECTORY_NOT_SYNCED),
    ],
)
def test_a_file_appended_to(existing: tuple[str, ...], sync: str, kind: MissingKind) -> None:
    trace = traced(
        f"""
        10 open("log", O_WRONLY|O_CREAT|O_APPEND, 0666) = 3</mnt/0/repo/log>
        10 write(3</mnt/0/repo/log>, "x", 1) = 1
        {sync}
        """,
        existing=existing,
    )

    assert what_was_missing(trace, "repo/log").kind is kind


def test_a_file_that_the_trace_does_not_have() -> None:
    assert what_was_missing(traced(WRITE + RENAME), "repo/other").kind is MissingKind.NOT_TRACED


def test_the_version_of_the_step_counts_when_a_name_is_used_again() -> None:
    trace = traced(WRITE + RENAME, WRITE + FSYNC + RENAME + DIRECTORY)

    assert what_was_missing(trace, "repo/f", "step-1").kind is MissingKind.NEVER_SYNCED
    assert what_was_missing(trace, "repo/f", "step-2").kind is MissingKind.NOTHING
    assert what_was_missing(trace, "repo/f").kind is MissingKind.NOTHING


def test_a_child_inherits_directory_and_command_even_before_its_parent_hears_of_it() -> None:
    trace = traced(
        """
        10 execve("/usr/bin/git", ["git", "stash"], 0x1 /* 9 vars */) = 0
        10 chdir("../elsewhere") = 0
        10 vfork( <unfinished ...>
        11 open("f", O_WRONLY|O_CREAT, 0666) = 3</mnt/0/elsewhere/f>
        11 write(3</mnt/0/elsewhere/f>, "x", 1) = 1
        10 <... vfork resumed>) = 11
        """
    )

    (file,) = trace.named("elsewhere/f")
    (write,) = file.of(EventKind.WRITTEN)
    assert write.command == "git stash"


def test_a_renamed_directory_takes_its_files_along() -> None:
    trace = traced(
        """
        10 mkdir("q", 0777) = 0
        10 openat(AT_FDCWD</mnt/0/repo>, "q/f", O_WRONLY|O_CREAT, 0666) = 3</mnt/0/repo/q/f>
        10 write(3</mnt/0/repo/q/f>, "x", 1) = 1
        10 renameat2(AT_FDCWD</mnt/0/repo>, "q", AT_FDCWD</mnt/0/repo>, "r", 0) = 0
        """
    )

    missing = what_was_missing(trace, "repo/r/f")
    assert missing.kind is MissingKind.NEVER_SYNCED
    assert missing.written_as == "repo/q/f"


def test_what_lies_outside_of_the_filesystem_is_not_followed() -> None:
    trace = traced(
        """
        10 openat(AT_FDCWD</tmp>, "f", O_WRONLY|O_CREAT, 0666) = 3</tmp/f>
        10 write(3</tmp/f>, "x", 1) = 1
        10 fsync(3</tmp/f>) = 0
        10 openat(AT_FDCWD</tmp>, "/mnt/01/f", O_WRONLY|O_CREAT, 0666) = 3</mnt/01/f>
        """
    )

    assert list(trace.files) == []
    assert list(trace.syncs) == []


@pytest.mark.parametrize(
    ("calls", "kind"),
    [
        (
            '10 open("g", O_WRONLY|O_CREAT|O_SYNC, 0600) = 3</mnt/0/repo/g>',
            MissingKind.DIRECTORY_NOT_SYNCED,
        ),
        (
            '10 open("g", O_WRONLY|O_CREAT, 0600) = 3</mnt/0/repo/g>',
            MissingKind.IN_PLACE,
        ),
    ],
)
def test_a_file_that_is_written_synchronously_was_synced(calls: str, kind: MissingKind) -> None:
    trace = traced(calls + '\n10 write(3</mnt/0/repo/g>, "x", 1) = 1')

    assert what_was_missing(trace, "repo/g").kind is kind


def test_a_write_with_the_sync_flag_was_synced() -> None:
    trace = traced(
        """
        10 open("g", O_WRONLY|O_CREAT, 0600) = 3</mnt/0/repo/g>
        10 pwritev2(3</mnt/0/repo/g>, [{iov_base="x", iov_len=1}], 1, 0, RWF_DSYNC) = 1
        """
    )

    assert what_was_missing(trace, "repo/g").kind is MissingKind.DIRECTORY_NOT_SYNCED


@pytest.mark.parametrize(
    ("flags", "kind"),
    [("MS_SYNC", MissingKind.NOTHING), ("MS_ASYNC", MissingKind.IN_PLACE)],
)
def test_a_mapped_file_is_synced_by_msync(flags: str, kind: MissingKind) -> None:
    trace = traced(
        f"""
        10 open("g", O_RDWR) = 3</mnt/0/repo/g>
        10 mmap(NULL, 4096, PROT_READ|PROT_WRITE, MAP_SHARED, 3</mnt/0/repo/g>, 0) = 0x7f0000000000
        10 msync(0x7f0000000000, 4096, {flags}) = 0
        """,
        existing=("repo/g",),
    )

    assert what_was_missing(trace, "repo/g").kind is kind


@pytest.mark.parametrize(
    "line",
    [
        "10 openat() = 3",
        "10 openat(AT_FDCWD</mnt/0/repo>) = 3",
        "10 rename() = 0",
        '10 rename("a") = 0',
        "10 mmap(NULL) = 0x1",
        "10 execve() = 0",
        "10 fsync() = 0",
        "10 write(3</mnt/0/repo/g) = 1",
        "10 copy_file_range(1) = 1",
    ],
)
def test_a_garbled_line_does_no_harm(line: str) -> None:
    trace = traced(WRITE + line + "\n" + RENAME)

    assert what_was_missing(trace, "repo/f").kind is MissingKind.NEVER_SYNCED
