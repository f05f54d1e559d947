"""Findings, runs and matrices as reports get them, made by hand."""

from crashsim.campaigns.results import (
    DecidedBy,
    Finding,
    LogResult,
    MachineResult,
    MatrixResult,
    PropertyResult,
    RunResult,
    Seconds,
    StatesResult,
    TornResult,
    WriteNote,
)


def finding(**changes: object) -> Finding:
    """The classic: a ref made durable by somebody else's fsync, its commit's object not."""
    fields: dict[str, object] = {
        "id": "intact-empty-loose-object-1",
        "property": "intact",
        "rule": "empty-loose-object",
        "subject": ".git/objects/1f/3a9c",
        "detail": "the commit that refs/heads/main names is an empty file",
        "blame": "application",
        "cut": 31,
        "dropped": [7],
        "torn": [],
        "needed": [7],
        "explanation": [
            "git wrote the commit 1f3a9c to .git/objects/1f/3a9c and renamed it into place.",
            "An unrelated process then called fsync: its journal commit carried the rename, "
            "and the new refs/heads/main, but not the object's data.",
            "The data (write 7) was still in the page cache's way to the disk.",
            "fsync of the object before its rename would have prevented it.",
        ],
        "states": 41,
        "step": "commit 2",
        "writes": [
            WriteNote(7, 536_903_680, 4096, "data of .git/objects/1f/3a9c"),
            WriteNote(8, 1_048_576, 8192, "journal: descriptor and metadata"),
        ],
        "bundle": "intact-empty-loose-object-1.crashsim",
    }
    fields.update(changes)
    return Finding(**fields)  # type: ignore[arg-type]


def torn_finding() -> Finding:
    """A finding with a torn write instead of a dropped one."""
    return finding(id="atomic-torn-index-1", dropped=[], torn=[TornResult(7, [0, 1, 5])], needed=[])


def run(
    *,
    fs: str = "ext4",
    fsync: str = "none",
    method: str = "fsync",
    violations: dict[str, int] | None = None,
    findings: list[Finding] | None = None,
    flushes_cost: int | None = 12,
    inconclusive: int = 0,
) -> RunResult:
    """One run of real git; `violations` by property, 0 where not named."""
    broken = violations or {}
    return RunResult(
        target="git",
        fs=fs,
        fsync=fsync,
        method=method,
        machine=MachineResult("qemu", "tcg", "6.12.57+deb13-amd64"),
        seed=1,
        log=LogResult(writes=812, flushes=31, bytes=9_402_368, marks=9),
        states=StatesResult(
            possible=None,
            distinct=2210,
            explored=2504,
            decided_by=DecidedBy(check=188, same_image=294, same_reads=1102, same_tree=920),
            coverage="every prefix; up to 2 dropped; torn at 512",
        ),
        properties={
            name: PropertyResult(checked=2504, violations=broken.get(name, 0))
            for name in ("recoverable", "intact", "durable", "atomic", "usable")
        },
        findings=findings or [],
        seconds=Seconds(boot=0.6, record=4.2, explore=31.5, shrink=5.1, total=42.0),
        flushes_cost=flushes_cost,
        inconclusive=inconclusive,
        disturbances=["fsync", "writeback"],
    )


def matrix() -> MatrixResult:
    """Three filesystems x three component sets x three methods, as the demo has it."""
    cells = []
    for fs in ("ext4", "xfs", "btrfs"):
        for fsync in ("none", "default", "all"):
            for method in ("fsync", "batch", "writeout-only"):
                broken: dict[str, int] = {}
                if fsync == "none":
                    broken = {"intact": 611, "durable": 1204, "usable": 87}
                elif fsync == "default":
                    broken = {"intact": 14 if method == "writeout-only" else 3, "durable": 840}
                elif method == "writeout-only":
                    broken = {"durable": 320, "intact": 2}
                cost = {"none": 0, "default": 14, "all": 52}[fsync]
                cells.append(
                    run(
                        fs=fs,
                        fsync=fsync,
                        method=method,
                        violations=broken,
                        findings=[finding()] if broken else [],
                        flushes_cost=cost if method == "fsync" else cost // 3,
                    )
                )
    return MatrixResult(cells)
