"""Start-up is most of a short command's time: what it must not import, and how records are made."""

import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path
from typing import ForwardRef

import pytest

import impl

SLOW = {
    "argparse",
    "ctypes",
    "dataclasses",
    "importlib.metadata",
    "inspect",
    "pathlib",
    "subprocess",
    "tempfile",
}
"""Modules of the standard library that take longer to import than a small repository to read."""

READS_PACKS = {"impl.objects.idx", "impl.objects.midx", "impl.objects.pack_file"}


def loaded_by(*arguments: str, directory: Path) -> set[str]:
    """The modules that a command of the store has loaded when it ends."""
    script = "import impl.cli, sys; code = impl.cli.main(); print(*sys.modules); sys.exit(code)"
    result = subprocess.run(
        [sys.executable, "-S", "-c", script, *arguments],
        cwd=directory,
        env={"PYTHONPATH": str(Path(impl.__path__[0]).parent), "GIT_CONFIG_NOSYSTEM": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(result.stdout.split())


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    loaded_by("init", "-q", ".", directory=tmp_path)
    (tmp_path / "file").write_text("content\n")
    return tmp_path


def test_a_short_command_imports_nothing_slow(repository: Path) -> None:
    identity = ("-c", "user.name=A", "-c", "user.email=a@b")
    for arguments in (("add", "file"), (*identity, "commit", "-q", "-m", "first")):
        loaded = loaded_by(*arguments, directory=repository)
        assert f"impl.porcelain.{'add' if 'add' in arguments else 'commit'}" in loaded
        assert loaded & SLOW == set()


def test_what_reads_packs_is_imported_where_there_are_some(repository: Path) -> None:
    assert loaded_by("add", "file", directory=repository) & READS_PACKS == set()
    identity = ("-c", "user.name=A", "-c", "user.email=a@b")
    loaded_by(*identity, "commit", "-q", "-m", "first", directory=repository)
    loaded_by("repack", "-q", "-a", "-d", directory=repository)
    loaded = loaded_by("rev-parse", "HEAD^{tree}", directory=repository)
    assert loaded >= READS_PACKS - {"impl.objects.midx"}


def test_no_record_has_a_field_whose_type_is_text() -> None:
    """NamedTuple compiles such a text, for each field at each start: 0.1 ms on a fast machine."""
    records = 0
    for found in pkgutil.walk_packages(impl.__path__, "impl."):
        if found.name == "impl.__main__":
            continue
        module = importlib.import_module(found.name)
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, tuple) and hasattr(value, "_fields"):
                records += 1
                texts = [
                    name
                    for name, annotation in value.__annotations__.items()
                    if isinstance(annotation, ForwardRef | str)
                ]
                assert texts == [], f"{found.name}.{value.__name__}"
    assert records > 50
