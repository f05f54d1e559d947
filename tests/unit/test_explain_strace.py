from crashsim.explain import strace
from crashsim.explain.strace import Descriptor


def parse_one(text: str) -> strace.Call:
    (call,) = strace.parse([f"7 1700000000.000001 {text}"])
    return call


def test_a_call_is_cut_into_its_arguments_and_its_result() -> None:
    call = parse_one('openat(AT_FDCWD</mnt/0>, "a, (b", O_WRONLY|O_CREAT, 0644) = 3</mnt/0/a, (b>')

    assert (call.process, call.name, call.result, call.ok) == (7, "openat", 3, True)
    assert call.arguments == ("AT_FDCWD</mnt/0>", '"a, (b"', "O_WRONLY|O_CREAT", "0644")


def test_brackets_and_commas_inside_structures_do_not_cut() -> None:
    call = parse_one(
        'writev(3</x>, [{iov_base="a)", iov_len=2}, {iov_base="b", iov_len=1}], 2) = 3'
    )

    assert len(call.arguments) == 3
    assert call.result == 3


def test_a_path_with_a_bracket_does_not_end_the_descriptor() -> None:
    call = parse_one(r'write(3</mnt/0/x\76y, z>(deleted), "hi", 2) = 2')

    assert strace.descriptor(call.arguments[0]) == Descriptor(3, "/mnt/0/x>y, z", deleted=True)


def test_an_error_is_no_success() -> None:
    call = parse_one('rename("a", "b") = -1 ENOENT (No such file or directory)')

    assert (call.result, call.error, call.ok) == (-1, "ENOENT", False)


def test_a_call_that_never_returned_is_no_success() -> None:
    call = parse_one("fsync(3</mnt/0/a>) = ?")

    assert not call.ok


def test_an_interrupted_call_is_joined_and_keeps_both_times() -> None:
    lines = [
        "7 1700000000.000001 fsync(3</mnt/0/a> <unfinished ...>",
        "8 1700000000.000002 sync() = 0",
        "7 1700000000.000003 <... fsync resumed>) = 0",
    ]

    sync, fsync = strace.parse(lines)

    assert (sync.process, sync.name) == (8, "sync")
    assert (fsync.process, fsync.name, fsync.arguments) == (7, "fsync", ("3</mnt/0/a>",))
    assert fsync.end_seconds > sync.begin_seconds > fsync.begin_seconds


def test_signals_exits_and_halves_without_a_beginning_are_left_out() -> None:
    lines = [
        "7 1700000000.000001 --- SIGCHLD {si_signo=SIGCHLD, si_code=CLD_EXITED} ---",
        "7 1700000000.000002 +++ exited with 0 +++",
        "7 1700000000.000003 <... fsync resumed>) = 0",
        "something else entirely",
        '7 1700000000.000004 openat(AT_FDCWD</mnt/0>, "half a li',
    ]

    assert list(strace.parse(lines)) == []


def test_escapes_give_back_the_bytes_of_the_name() -> None:
    assert strace.string(r'"\303\251\n\"q\\"') == 'é\n"q\\'
    assert strace.string(r'"\377"') == "\udcff"
    assert strace.string("NULL") is None


def test_an_array_of_strings_is_read_whole() -> None:
    assert strace.strings(r'["git", "commit", "-m", "a \"b\", c"]') == [
        "git",
        "commit",
        "-m",
        'a "b", c',
    ]
