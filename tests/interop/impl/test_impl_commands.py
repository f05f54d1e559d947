"""The same commands by git and by this store: the same output, index, references and reflogs."""

from pathlib import Path

import pytest

from tests.support.impl_command import Program, assert_git_accepts, git, store

METHOD = ("-c", "core.fsync=all", "-c", "core.fsyncMethod=paired-syncfs")


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Program, Program]:
    """Two equal repositories: this store's and git's."""
    programs = []
    for name, make in (("ours", store), ("theirs", git)):
        directory = tmp_path / name
        (directory / "d").mkdir(parents=True)
        program = make(directory)
        program("init", "-q", "-b", "main")
        for path in ("a", "b", "d/c"):
            (directory / path).write_text(f"{path}\n")
        program("add", "--all")
        program("commit", "-q", "-m", "first")
        programs.append(program.having(*METHOD) if name == "ours" else program)
    return programs[0], programs[1]


def seen(program: Program) -> dict[str, str]:
    """What git sees in a repository."""
    ask = git(program.directory)
    questions = ("ls-files -s", "for-each-ref", "symbolic-ref -q HEAD", "status --porcelain")
    answers = {words: ask.run(*words.split()).stdout.decode() for words in questions}
    logs = sorted((program.directory / ".git/logs").rglob("*"))
    return answers | {path.name: path.read_text() for path in logs if path.is_file()}


def compare(pair: tuple[Program, Program], commands: str) -> None:
    """Run commands, one a line, with both: the same exit codes, and the same repositories."""
    for line in commands.strip().splitlines():
        done = [program.run(*line.split()) for program in pair]
        assert done[0].returncode == done[1].returncode, (line, done)
        assert done[0].stdout == done[1].stdout, line
        assert seen(pair[0]) == seen(pair[1]), line
    assert_git_accepts(pair[0].directory)


def change(pair: tuple[Program, Program], path: str, content: str | None) -> None:
    for program in pair:
        file = program.directory / path
        if content is None:
            file.unlink()
        else:
            file.parent.mkdir(exist_ok=True)
            file.write_text(content)


def test_tag(pair: tuple[Program, Program]) -> None:
    compare(
        pair,
        """
        tag light
        tag -a -m text heavy
        tag light
        tag -l
        tag -l l*
        tag -f light HEAD^{tree}
        tag of-tag heavy
        tag -d heavy
        tag -d heavy
        tag
        tag bad..name
        tag new no-such
        """,
    )


def test_switch(pair: tuple[Program, Program]) -> None:
    compare(pair, "switch -q -c side\nswitch -q main\nswitch -q side")
    change(pair, "a", "changed\n")
    change(pair, "new", "new\n")
    change(pair, "b", None)
    compare(
        pair,
        """
        add --all
        commit -q -m second
        switch -q main
        switch -q --detach side
        switch -q -c again main
        switch -q no-such
        switch -q -c main
        switch -q -C side main
        """,
    )


def test_switch_keeps_local_changes_and_refuses_to_lose_them(pair: tuple[Program, Program]) -> None:
    compare(pair, "switch -q -c side")
    change(pair, "a", "side\n")
    compare(pair, "commit -q -a -m side\nswitch -q main")
    change(pair, "b", "local\n")
    compare(pair, "switch -q side\nswitch -q main")
    change(pair, "a", "local, too\n")

    compare(pair, "switch -q side")

    assert (pair[0].directory / "a").read_text() == "local, too\n"
    assert not (pair[0].directory / ".git/index.lock").exists()


def test_status(pair: tuple[Program, Program]) -> None:
    change(pair, "a", "changed\n")
    change(pair, "b", None)
    change(pair, "untracked", "u\n")
    change(pair, "more/deep", "u\n")
    change(pair, "added", "added\n")
    compare(pair, "status --porcelain\nadd added\nstatus --porcelain\nstatus --short")
    change(pair, "added", "again\n")
    compare(pair, "status --porcelain")


def test_read_tree(pair: tuple[Program, Program]) -> None:
    change(pair, "a", "changed\n")
    compare(
        pair,
        """
        add a
        commit -q -m second
        read-tree HEAD~1
        write-tree
        read-tree --empty
        write-tree
        read-tree HEAD
        read-tree no-such
        """,
    )


def test_config(pair: tuple[Program, Program]) -> None:
    compare(
        pair,
        """
        config user.name Somebody
        config user.name
        config --get user.name
        config --get no.such
        config Remote.Origin.url a#b;c"d
        config --get remote.Origin.url
        config user.name Other
        config --unset user.name
        config --unset user.name
        config core.x-y true
        """,
    )
    ours, theirs = (git(program.directory)("config", "--local", "--list") for program in pair)
    assert ours == theirs


@pytest.mark.parametrize("version", ["2", "4"])
def test_a_split_index_is_read_and_becomes_whole(
    pair: tuple[Program, Program], version: str
) -> None:
    directory = pair[0].directory
    theirs = git(directory)
    theirs("update-index", "--index-version", version)
    theirs("update-index", "--split-index")
    (directory / "a").write_text("replaced\n")
    theirs("update-index", "a")
    theirs("update-index", "--force-remove", "b")
    (directory / "n").write_text("new\n")
    theirs("update-index", "--add", "n")
    assert b"link" in (directory / ".git/index").read_bytes()

    expected = theirs("ls-files", "-s")

    assert pair[0]("ls-files", "-s") == expected
    pair[0]("add", "--all")
    assert b"link" not in (directory / ".git/index").read_bytes()
    assert_git_accepts(directory)
