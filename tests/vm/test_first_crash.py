"""The main job, end to end, as a user runs it: record, find, shrink, explain, bundle, replay."""

import shutil
from pathlib import Path

import pytest

from crashsim.machines.qemu import QemuMachine
from tests.support.crashsim_command import crashsim, read_json

pytestmark = [pytest.mark.vm, pytest.mark.slow]

EXAMPLES = Path(__file__).parents[2] / "examples"
CONFIG_WRITER = ("--payload", str(EXAMPLES / "config-writer"), "--check", "config-check")


@pytest.mark.timeout(900)
def test_git_without_fsync_loses_objects_and_the_bundle_replays(
    machine: QemuMachine, tmp_path: Path
) -> None:
    run = crashsim(
        tmp_path,
        *("run", "--target", "git", "--sequence", "commit", "--fs", "ext4", "--fsync", "none"),
        *("--states", "40", "--property", "intact", "--json", "result.json"),
    )

    assert run.returncode == 1, run.stderr
    result = read_json(tmp_path / "result.json")
    assert result["schema"] == "crashsim.run/1"
    assert result["properties"]["intact"]["violations"] > 0
    assert sum(result["states"]["decided_by"].values()) == result["states"]["explored"]
    finding = result["findings"][0]
    assert finding["property"] == "intact"
    assert finding["needed"]
    assert set(finding["needed"]) <= set(finding["dropped"])
    assert len(finding["explanation"]) >= 3

    empty = tmp_path / "elsewhere"
    empty.mkdir()
    bundle = shutil.copy(tmp_path / finding["bundle"], empty / "case.crashsim")
    again = crashsim(empty, "repro", str(bundle), "--json", "again.json")
    assert again.returncode == 1, again.stderr
    same = read_json(empty / "again.json")["violations"]
    assert (finding["rule"], finding["subject"]) in [(one["rule"], one["subject"]) for one in same]

    restored = crashsim(empty, "repro", str(bundle), "--restore", str(finding["needed"][0]))
    assert restored.returncode == 0, restored.stdout + restored.stderr

    page = crashsim(empty, "report", str(bundle), "--html", "page.html")
    assert page.returncode == 0, page.stderr
    written = (empty / "page.html").read_text()
    assert finding["subject"] in written
    assert "git fsck --full --strict" in written, "the second opinion came along in the bundle"


@pytest.mark.timeout(600)
def test_the_naive_config_writer_is_caught(machine: QemuMachine, tmp_path: Path) -> None:
    run = crashsim(
        tmp_path,
        *("run", "--fs", "ext4", *CONFIG_WRITER, "--states", "60", "--json", "result.json"),
        *("--", "config-write", "--naive"),
    )

    assert run.returncode == 1, run.stderr
    finding = read_json(tmp_path / "result.json")["findings"][0]
    assert finding["rule"] == "check-failed"
    assert any("config.json" in sentence for sentence in finding["explanation"])


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("fs", "device"),
    # A btrfs superblock that is torn at 512 bytes does not mount, whatever programs do: see
    # docs/findings.md. This is about the program.
    [("ext4", "default"), ("xfs", "default"), ("btrfs", "4kn")],
)
def test_the_corrected_config_writer_is_clean(
    machine: QemuMachine, tmp_path: Path, fs: str, device: str
) -> None:
    run = crashsim(
        tmp_path,
        *(
            "run",
            "--fs",
            fs,
            "--device",
            device,
            *CONFIG_WRITER,
            "--states",
            "60",
            "--json",
            "result.json",
        ),
        *("--", "config-write"),
    )

    assert run.returncode == 0, run.stdout + run.stderr
    result = read_json(tmp_path / "result.json")
    assert result["states"]["explored"] == 60
    assert result["findings"] == []


@pytest.mark.timeout(600)
@pytest.mark.parametrize("check", ["sleep 1000", "kill -SEGV $$", "exit 7"])
def test_a_check_that_gives_no_answer_is_never_clean(
    machine: QemuMachine, tmp_path: Path, check: str
) -> None:
    run = crashsim(
        tmp_path,
        *("run", "--fs", "ext4", "--check", check, "--check-timeout", "1", "--states", "4"),
        *("--disturb", "none", "--json", "result.json", "--", "sh", "-c", "echo saved >file; sync"),
    )

    assert run.returncode == 3, run.stdout + run.stderr
    result = read_json(tmp_path / "result.json")
    assert result["inconclusive"] == result["states"]["explored"] > 0
    assert result["properties"]["durable"]["checked"] == 0


@pytest.mark.timeout(600)
def test_a_workload_file_is_a_workload(machine: QemuMachine, tmp_path: Path) -> None:
    (tmp_path / "workload.toml").write_text(
        """
        setup = "mkdir saved"
        check = 'while read n; do test -s saved/$n || exit 1; done <"$CRASHSIM_PROMISES"'

        [[step]]
        name = "first"
        run = "echo 1 >saved/one; crashsim-mark one"

        [[step]]
        run = "echo 2 >saved/two; crashsim-mark two"
        """
    )

    run = crashsim(
        tmp_path,
        *("run", "--workload", "workload.toml", "--states", "40", "--json", "result.json"),
    )

    assert run.returncode == 1, run.stdout + run.stderr
    finding = read_json(tmp_path / "result.json")["findings"][0]
    assert finding["step"] in ("first", "step-2")


STEPS = """
check = '''
while read -r name; do test "$(cat "$name")" = saved || exit 1; done <"$CRASHSIM_PROMISES"
'''

[[step]]
name = "bystander"
run = "echo nobody asked >elsewhere"

[[step]]
name = "save"
run = "echo saved >new; mv new file; crashsim-mark file"
"""


@pytest.mark.timeout(600)
def test_steps_that_a_finding_does_not_need_are_left_out(
    machine: QemuMachine, tmp_path: Path
) -> None:
    (tmp_path / "workload.toml").write_text(STEPS)

    run = crashsim(
        tmp_path,
        *("run", "--workload", "workload.toml", "--fs", "ext4", "--states", "30"),
        *("--disturb", "fsync", "--no-shrink", "--shrink-steps"),
    )

    assert run.returncode == 1, run.stderr
    assert "needs 1 of 2 steps: save; " in run.stdout
