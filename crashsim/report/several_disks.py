"""What methods lose where a directory of the repository is on a disk of its own, as Markdown."""

from collections.abc import Iterator, Sequence

from crashsim.campaigns.validation import Counterexample, FilesystemValidation, ValidationResult


def split_markdown(results: Sequence[ValidationResult]) -> str:
    """A table, method by filesystem, and the simplest crash for each property that is lost.

    Of the filesystems for which any of the methods claims anything.
    """
    names = dict.fromkeys(each.fs for result in results for each in result.filesystems)
    claimed = [name for name in names if any(_on(result, name) for result in results)]
    lines = [
        f"| method | {' | '.join(claimed)} | `add` and `commit` cost |",
        "|---|" + "---|" * (len(claimed) + 1),
    ]
    for result in results:
        cells = [_cell(_on(result, name)) for name in claimed]
        lines.append(f"| `{result.method}` | {' | '.join(cells)} | {_cost(result)} |")
    states = sum(each.model.distinct for result in results for each in result.filesystems)
    split = next((result.split for result in results), "")
    lines += ["", f"With `{split}` on a disk of its own; {states:,} crash states.", ""]
    lines += [line for result in results for line in _examples(result)]
    return "\n".join(lines).rstrip() + "\n"


def _on(result: ValidationResult, name: str) -> FilesystemValidation | None:
    """What came of a filesystem for which the method claims something."""
    return next((each for each in result.filesystems if each.fs == name and each.claims), None)


def _cell(found: FilesystemValidation | None) -> str:
    if found is None:
        return "–"
    if not found.refuted:
        return f"keeps {', '.join(found.claims)}"
    kept = [name for name in found.claims if name not in found.refuted]
    return f"**loses {', '.join(found.refuted)}**" + (f"; keeps {', '.join(kept)}" if kept else "")


def _cost(result: ValidationResult) -> str:
    cost = next((each for each in result.cost if each.operation == "commit"), None)
    if cost is None:
        return "–"
    counts = {
        "fsync": cost.flushes,
        "writeout": cost.writeouts,
        "syncfs": cost.filesystem_syncs,
    }
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "nothing"


def _examples(result: ValidationResult) -> Iterator[str]:
    """For each lost property one crash, of the filesystem where it takes the least."""
    lost = dict.fromkeys(name for each in result.filesystems for name in each.refuted)
    for name in lost:
        found = [
            (one.lost, number, each, one)
            for number, each in enumerate(result.filesystems)
            for one in each.model.counterexamples
            if name in each.refuted and one.property == name
        ]
        _, _, where, simplest = min(found, key=lambda each: each[:2])
        yield f"- `{result.method}` loses {name}, {where.fs}, after `{_after(simplest)}`:"
        yield f"  {simplest.detail}"
        yield from (f"  - {line.strip()}" for line in simplest.crash)


def _after(one: Counterexample) -> str:
    return ", ".join(one.operations)
