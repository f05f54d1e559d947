"""Run a workload once more, on a scratch disk under strace(1), to learn which calls it makes.

The recording itself is not traced: strace slows a program and so changes what its disk sees. The
workloads are deterministic up to the names of temporary files, so the calls are the same.
"""

import zlib
from contextlib import closing

from crashsim.disk.recording_disk import MemoryDisk
from crashsim.errors import InfrastructureError
from crashsim.explain.lineage import Trace
from crashsim.explain.syscalls import TRACED_CALLS, read_trace
from crashsim.faults.disturbances import EXCLUDE
from crashsim.machines.crash_disks import attach_disks, make_filesystem, mount_fresh
from crashsim.machines.filesystems import Filesystem
from crashsim.machines.hardware import CRASH_DISK_BYTES
from crashsim.machines.protocol import Guest, Machine
from crashsim.machines.tree import NodeKind
from crashsim.workloads.protocol import Step, Workload, WorkloadFailed
from crashsim.workloads.session import ROOT, SLOT

TRACE_BYTES_MAX = 64 << 20
_OUTPUT = "/run/crashsim-trace"
_STRACE_STRING_BYTES = 128
"""How much of a string strace shows; paths are always shown whole."""


class TraceUnreadable(InfrastructureError):
    """The trace could not be brought out of the guest."""


def trace_workload(machine: Machine, workload: Workload, filesystem: Filesystem) -> Trace:
    """Run the workload's steps under strace in a fresh guest.

    Raises WorkloadFailed when a step fails, TraceUnreadable, and what the machine raises.
    """
    size_bytes = CRASH_DISK_BYTES * filesystem.disks
    with closing(MemoryDisk(size_bytes)) as disk, machine.start() as guest:
        attach_disks(guest, disk, filesystem.disks, SLOT)
        make_filesystem(guest, filesystem, SLOT)
        mount_fresh(guest, filesystem.mount(SLOT))
        workload.prepare(guest, ROOT)
        nodes = guest.tree(ROOT, exclude=EXCLUDE, collect=()).nodes
        outputs = [(step.name, _traced(guest, workload, step)) for step in workload.steps]
    return read_trace(
        outputs,
        ROOT,
        {step.name: _directory(step) for step in workload.steps},
        [path for path, node in nodes.items() if node.kind is not NodeKind.DIRECTORY],
    )


def _directory(step: Step) -> str:
    return f"{ROOT}/{step.directory}".rstrip("/")


def _traced(guest: Guest, workload: Workload, step: Step) -> list[str]:
    """The lines that strace wrote while a step ran."""
    result = guest.run(
        [
            *("strace", "-f", "-y", "-ttt", "-s", str(_STRACE_STRING_BYTES), "--seccomp-bpf"),
            *("-e", "signal=none", "-e", f"trace={','.join(f'?{call}' for call in TRACED_CALLS)}"),
            *("-o", _OUTPUT, "--", *step.argv),
        ],
        cwd=_directory(step),
        env=workload.environment,
        timeout_seconds=step.timeout_seconds * 4,
        on_mark=lambda _text: None,
    )
    if result.timed_out or result.returncode != 0:
        raise WorkloadFailed(workload.name, f"{step.name}, under strace,", result)
    return _fetched(guest)


def _fetched(guest: Guest) -> list[str]:
    result = guest.run(["gzip", "-c", _OUTPUT], output_limit_bytes=TRACE_BYTES_MAX)
    if result.returncode != 0:
        told = result.stderr.decode("utf-8", "replace").strip()
        raise TraceUnreadable(f"strace left no trace in the guest: {told}")
    unpacker = zlib.decompressobj(wbits=31)
    try:
        text = unpacker.decompress(result.stdout, TRACE_BYTES_MAX)
    except zlib.error as error:
        raise TraceUnreadable(f"the trace from the guest does not unpack: {error}") from error
    if not unpacker.eof:
        raise TraceUnreadable(
            f"the trace of one step is longer than {TRACE_BYTES_MAX >> 20} MiB: take fewer steps"
        )
    return text.decode("utf-8", "surrogateescape").splitlines()
