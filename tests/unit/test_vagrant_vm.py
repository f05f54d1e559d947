"""What Vagrant says is understood, and where it is missing there is one clear line."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from crashsim.errors import UsageError
from crashsim.machines.failures import MachineUnusable
from crashsim.machines.images.recipe import ImageSpec
from crashsim.machines.protocol import MachineInfo
from crashsim.machines.select import choose_machine
from crashsim.machines.vagrant_guest import VagrantGuest
from crashsim.machines.vagrant_vm import VagrantVm, read_snapshots, read_state, ssh_command

RUNNING = """1796138105,default,metadata,provider,libvirt
1796138105,default,provider-name,libvirt
1796138105,default,state,{state}
1796138105,default,state-human-short,running
1796138105,,ui,info,Current machine states:\\n\\ndefault                   running (libvirt)
"""

NONE_YET = """==> default: No snapshots have been taken yet!
    default: You can take a snapshot using `vagrant snapshot save`. Note that
    default: not all providers support this yet. Once a snapshot is taken, you
    default: can list them using this command, and use commands such as
    default: `vagrant snapshot restore` to go back to a certain snapshot.
"""


@pytest.fixture
def vagrant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts a program `vagrant` on PATH that does what a script says, and a Vagrantfile here."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (tmp_path / "Vagrantfile").write_text("")
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VAGRANT_CWD", raising=False)

    def put(script: str, name: str = "vagrant") -> None:
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)

    put("exit 0", "ssh")
    return put


def says(text: str) -> str:
    return f"cat <<'END'\n{text}END"


def test_the_state_and_the_snapshots_are_read() -> None:
    assert read_state(RUNNING.format(state="shutoff")) == "shutoff"
    assert read_snapshots(NONE_YET) == []
    assert read_snapshots("==> default: \ncrashsim\nmine\n") == ["crashsim", "mine"]
    with pytest.raises(MachineUnusable, match="no VM"):
        read_state("1796138105,,ui,info,nothing\n")


def test_a_vm_that_runs_is_taken(vagrant: Callable[[str], None]) -> None:
    vagrant(says(RUNNING.format(state="running")))

    assert choose_machine("vagrant").info.kind == "vagrant"


@pytest.mark.parametrize("state", ["not_created", "shutoff"])
def test_a_vm_that_does_not_run_is_told(vagrant: Callable[[str], None], state: str) -> None:
    vagrant(says(RUNNING.format(state=state)))

    with pytest.raises(MachineUnusable, match=rf"not running \({state}\).*vagrant up") as told:
        choose_machine("vagrant")
    assert "\n" not in str(told.value)
    assert told.value.exit_code == 3


def test_a_vm_whose_address_is_not_known_is_told(vagrant: Callable[[str], None]) -> None:
    vagrant(says(RUNNING.format(state="inaccessible")))

    with pytest.raises(MachineUnusable, match=r"DHCP lease has run out; call vagrant reload"):
        choose_machine("vagrant")


def test_without_vagrant_its_package_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(MachineUnusable, match="Debian package vagrant"):
        choose_machine("vagrant")


def test_without_a_vagrantfile_the_place_is_named(
    vagrant: Callable[[str], None], tmp_path: Path
) -> None:
    vagrant("exit 1")
    (tmp_path / "Vagrantfile").unlink()

    with pytest.raises(MachineUnusable, match="no Vagrantfile in"):
        choose_machine("vagrant")


def test_a_provider_that_fails_is_told_in_one_line(vagrant: Callable[[str], None]) -> None:
    vagrant("echo 'libvirt is' >&2; echo 'not there' >&2; exit 1")

    with pytest.raises(MachineUnusable, match=r"ended with 1: libvirt is not there") as told:
        choose_machine("vagrant")
    assert "\n" not in str(told.value)


def test_a_kernel_of_the_users_own_does_not_go_with_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="kernel"):
        choose_machine("vagrant", ImageSpec(kernel=tmp_path / "bzImage"))


@pytest.mark.parametrize(
    ("listed", "called"),
    [
        (NONE_YET, "snapshot save crashsim"),
        ("==> default: \ncrashsim\n", "snapshot restore --no-provision crashsim"),
    ],
)
def test_a_run_begins_with_the_snapshot(
    vagrant: Callable[[str], None], tmp_path: Path, listed: str, called: str
) -> None:
    status = says(RUNNING.format(state="running"))
    vagrant(
        f'echo "$*" >>{tmp_path}/calls\ncase "$*" in\nstatus*) {status}\n'
        f";;\n'snapshot list') {says(listed)}\n;;\nesac"
    )
    VagrantVm().restore()

    assert (tmp_path / "calls").read_text().splitlines()[-1] == called


def test_a_vm_that_ssh_cannot_enter_is_told_in_one_line(
    vagrant: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    make = tempfile.mkdtemp

    def noting(**named: str) -> str:
        made.append(make(**named))
        return made[-1]

    monkeypatch.setattr("tempfile.mkdtemp", noting)
    fake = tmp_path / "bin" / "ssh"
    fake.write_text("#!/bin/sh\necho 'ssh: connect to host:' >&2\necho no route >&2\nexit 255\n")
    info = MachineInfo("vagrant", "vagrant", "")

    with pytest.raises(
        MachineUnusable, match=r"no guest starts .*: ssh: connect to host: no route"
    ):
        VagrantGuest(info, ssh_command(tmp_path / "ssh-config"), "/nowhere", 1)
    assert made
    assert not any(os.path.exists(directory) for directory in made)
