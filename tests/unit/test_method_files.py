"""A fsync method of somebody else's comes into the guest with what it needs."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from crashsim.campaigns.methods import find_method
from crashsim.errors import UsageError
from crashsim.workloads.git_options import BadGitOption
from crashsim.workloads.impl import is_location
from crashsim.workloads.method_files import MethodNotFound, method_files
from crashsim.workloads.registry import TargetOptions, make_target

METHOD = """
from impl.durability.method import FsyncMethod, guaranteed

class Mine(FsyncMethod):
    name = "mine"
    guarantee = guaranteed("intact")
"""
WRONG = "tests.support.wrong_methods:NoSync"


def write(directory: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture(autouse=True)
def _no_module_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", sys.path.copy())
    monkeypatch.setattr(sys, "modules", sys.modules.copy())


def test_a_module_comes_alone_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {"lonely_method.py": METHOD, "unrelated.py": ""})
    monkeypatch.chdir(tmp_path)

    assert find_method("lonely_method:Mine").setting == "lonely_method:Mine"
    assert method_files("lonely_method:Mine") == {"lonely_method.py": METHOD.encode()}


def test_a_package_comes_whole_with_what_is_above_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        "outer_package/__init__.py": "outer = 1",
        "outer_package/other/__init__.py": "",
        "outer_package/inner/__init__.py": "",
        "outer_package/inner/mine.py": METHOD,
        "outer_package/inner/deep/helper.py": "help = 1",
    }
    write(tmp_path, {**files, "outer_package/inner/data.bin": ""})
    monkeypatch.chdir(tmp_path)

    del files["outer_package/other/__init__.py"]
    assert method_files("outer_package.inner.mine:Mine") == {
        path: text.encode() for path, text in files.items()
    }
    assert method_files("outer_package.inner:Mine").keys() == files.keys()


@pytest.mark.parametrize("location", ["nowhere_at_all:X", "nowhere.at_all:X", "time:X", "a..b:X"])
def test_a_module_that_is_no_python_file_is_refused(location: str) -> None:
    with pytest.raises(MethodNotFound, match="no fsync method at"):
        method_files(location)


def test_only_module_and_class_are_a_location() -> None:
    assert is_location(WRONG)
    for name in ("fsync", "default", "a:b:c", "a; rm:b", "a.b:", ":b", "a.b:c d", "a/b:c"):
        assert not is_location(name)


def test_the_workload_has_the_method_and_chooses_it_on_the_command_line(tmp_path: Path) -> None:
    target = make_target("impl", TargetOptions(method=WRONG, sequence="commit"))

    script = target.steps[0].argv[-1]
    assert f'git() {{ python3 -m impl -c core.fsyncMethod={WRONG} "$@"; }}' in script
    program = getattr(target, "program", {})
    assert "store/tests/support/wrong_methods.py" in program
    for path, content in program.items():
        write(tmp_path, {path: content.decode()})
    imported = subprocess.run(
        [sys.executable, "-S", "-c", f"import {WRONG.partition(':')[0]}"],
        env={"PYTHONPATH": str(tmp_path / "store")},
        cwd=tmp_path,
        check=False,
        capture_output=True,
    )
    assert imported.returncode == 0, imported.stderr


def test_a_method_that_nobody_has_is_still_refused() -> None:
    with pytest.raises(BadGitOption):
        make_target("impl", TargetOptions(method="nonsense"))
    with pytest.raises(UsageError):
        make_target("impl", TargetOptions(method="nowhere_at_all:Class"))
    with pytest.raises(BadGitOption):
        make_target("git", TargetOptions(method=WRONG))
