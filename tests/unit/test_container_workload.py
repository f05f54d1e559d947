"""A container image becomes a payload with the program that runs it."""

import shutil
import subprocess
from pathlib import Path

import pytest

from crashsim.campaigns.targets import CommandChoice, choose_target
from crashsim.errors import UsageError
from crashsim.workloads.container import (
    ContainerChoice,
    NoVolume,
    container_workload,
    in_container,
)
from crashsim.workloads.container_image import ImageConfig
from crashsim.workloads.container_root import BadImage
from crashsim.workloads.registry import TargetOptions
from tests.support.container_images import Layer, directory, saved

LAYER: Layer = {"app": b"program", "data": directory("data")}


def test_it_runs_the_image_with_the_given_arguments(tmp_path: Path) -> None:
    image = saved(tmp_path / "app.tar", [LAYER], Entrypoint=["/app"], Volumes={"/data": {}})
    workload = container_workload(ContainerChoice(image, None, ("--fast",)))

    (step,) = workload.steps
    assert step.argv == ("in-container", "--fast")
    assert workload.setup == ("in-container", "--prepare")
    assert workload.describe() == {
        "setup": ["in-container", "--prepare"],
        "payload": "payload",
        "image": "app.tar",
        "volume": "/data",
    }
    assert workload.payload is not None
    assert (workload.payload / "bin/in-container").stat().st_mode & 0o111
    assert (workload.payload / "image.tar").stat().st_size


def test_the_payload_goes_with_the_workload(tmp_path: Path) -> None:
    image = saved(tmp_path / "app.tar", [LAYER], Cmd=["/app"])
    workload = container_workload(ContainerChoice(image, "/data"))
    payload = workload.payload
    assert payload is not None
    assert payload.is_dir()
    del workload

    assert not payload.exists()


@pytest.mark.parametrize("volumes", [{}, {"/a": {}, "/b": {}}])
def test_without_one_volume_it_has_to_be_said(tmp_path: Path, volumes: dict[str, object]) -> None:
    image = saved(tmp_path / "app.tar", [LAYER], Cmd=["/app"], Volumes=volumes)

    with pytest.raises(NoVolume, match="--volume"):
        container_workload(ContainerChoice(image))


@pytest.mark.parametrize("volume", ["/", "//", "/da ta", "/it's", "/$x"])
def test_a_volume_is_a_plain_path(volume: str) -> None:
    with pytest.raises(NoVolume):
        in_container(ImageConfig(), volume)


def test_an_image_without_a_program_needs_one(tmp_path: Path) -> None:
    image = saved(tmp_path / "app.tar", [LAYER])

    with pytest.raises(BadImage, match="no program"):
        container_workload(ContainerChoice(image, "/data"))


EVIL = 'it\'s $(touch /tmp/x) "`id`" \\ \n;'


def test_words_of_the_image_are_only_ever_words(tmp_path: Path) -> None:
    """Of the script, the inner shell's program is run here with everything around it replaced."""
    config = ImageConfig(
        entrypoint=("/app", EVIL), command=(EVIL,), environment=(f"WORD={EVIL}",), directory=EVIL
    )
    script = in_container(config, "/data")
    shell = shutil.which("sh")
    assert shell is not None
    parsed = subprocess.run([shell, "-n", "-c", script], capture_output=True, check=False)
    assert parsed.returncode == 0, parsed.stderr

    start = script.index("[ $# -gt 0 ]")
    end = script.index("# A name is looked up")
    shown = script[start:end] + "printf '<%s>' \"$@\""
    outer = subprocess.run([shell, "-euc", shown], capture_output=True, text=True, check=True)
    assert outer.stdout == f"</app><{EVIL}><{EVIL}>"

    quoted = script[script.index("-euc '") + 5 : script.rindex(" in-container")]
    lines = subprocess.run(
        [shell, "-c", f"printf %s {quoted}"], capture_output=True, text=True, check=True
    ).stdout
    inner = "\n".join(line for line in lines.splitlines(keepends=False) if "mount" not in line)
    chroot = "exec /usr/sbin/chroot"
    exec_line = inner[inner.index(chroot) :].replace(chroot, "printf '<%s>'", 1)
    told = subprocess.run(
        [shell, "-c", exec_line, "sh", "ARGUMENT"],
        env={"root": "ROOT"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert f"<WORD={EVIL}>" in told
    assert told.endswith("<ARGUMENT>")


@pytest.mark.parametrize(
    ("target", "choice", "told"),
    [
        ("docker", CommandChoice(check="true"), "needs --image"),
        ("docker", CommandChoice(check="true", image=Path("x"), setup="true"), "--setup"),
        ("git", CommandChoice(volume="/data"), "--target docker"),
        (None, CommandChoice(check="true", image=Path("x")), "--target docker"),
    ],
)
def test_what_does_not_fit_together_is_refused(
    target: str | None, choice: CommandChoice, told: str
) -> None:
    with pytest.raises(UsageError, match=told):
        choose_target(target, None, ["x"] if target is None else None, choice, TargetOptions())


def test_a_container_needs_a_check(tmp_path: Path) -> None:
    image = saved(tmp_path / "app.tar", [LAYER], Cmd=["/app"])
    choice = CommandChoice(image=image, volume="/data")

    with pytest.raises(UsageError, match="--check"):
        choose_target("docker", None, None, choice, TargetOptions())


def test_an_image_that_is_not_there_is_bad_input(tmp_path: Path) -> None:
    choice = CommandChoice(image=tmp_path / "none.tar", volume="/data", check="true")

    with pytest.raises(BadImage, match=r"none\.tar"):
        choose_target("docker", None, None, choice, TargetOptions())
