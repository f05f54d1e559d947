"""The Vagrantfile, read by Vagrant."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def validate(
    directory: Path, home: Path, *words: str, **environment: str
) -> "subprocess.CompletedProcess[str]":
    """`vagrant validate`, with a home of its own; by default whatever providers are installed."""
    vagrant = shutil.which("vagrant")
    if vagrant is None:
        pytest.skip("THE VAGRANTFILE IS NOT VALIDATED: there is no vagrant on this host")
    return subprocess.run(
        [vagrant, "validate", *(words or ["--ignore-provider"])],
        cwd=directory,
        env={
            **os.environ,
            "VAGRANT_HOME": str(home),
            "VAGRANT_CHECKPOINT_DISABLE": "1",
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )


def test_vagrant_takes_the_vagrantfile(tmp_path: Path) -> None:
    directory = tmp_path / "project"
    directory.mkdir()
    shutil.copy(ROOT / "Vagrantfile", directory)
    done = validate(directory, tmp_path / "home")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "validated successfully" in done.stdout


@pytest.mark.parametrize("driver", ["kvm", "qemu"])
def test_libvirt_takes_its_part(tmp_path: Path, driver: str) -> None:
    directory = tmp_path / "project"
    directory.mkdir()
    shutil.copy(ROOT / "Vagrantfile", directory)
    environment = {"VAGRANT_DEFAULT_PROVIDER": "libvirt", "CRASHSIM_LIBVIRT_DRIVER": driver}

    def check() -> "subprocess.CompletedProcess[str]":
        return validate(directory, tmp_path / "home", "--", **environment)

    done = check()
    if "provider 'libvirt' could not be found" in " ".join(done.stderr.split()):
        pytest.skip("LIBVIRT'S PART IS NOT VALIDATED: there is no vagrant-libvirt on this host")
    assert done.returncode == 0, done.stdout + done.stderr
    text = (ROOT / "Vagrantfile").read_text()
    (directory / "Vagrantfile").write_text(text.replace("libvirt.cpus", "libvirt.processors"))
    assert check().returncode != 0


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("config.vm.hostname", "config.vm.host_name_of"), ('type: "rsync"', 'type: "nothing"')],
)
def test_it_would_not_take_any(tmp_path: Path, right: str, wrong: str) -> None:
    directory = tmp_path / "project"
    directory.mkdir()
    text = (ROOT / "Vagrantfile").read_text()
    assert right in text
    (directory / "Vagrantfile").write_text(text.replace(right, wrong))

    assert validate(directory, tmp_path / "home").returncode != 0
