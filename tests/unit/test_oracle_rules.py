"""The table of rules, in code and in docs/git-oracle.md."""

import re
from pathlib import Path

import pytest

from crashsim.oracles.git import RULES
from crashsim.oracles.protocol import Property

ROOT = Path(__file__).parents[2]


def test_docs_have_the_same_table() -> None:
    heading, found = "", {}
    for line in (ROOT / "docs" / "git-oracle.md").read_text().splitlines():
        if line.startswith("### "):
            heading = line.removeprefix("### ")
        row = re.fullmatch(r"\| `([a-z-]+)` \| (.+) \| (.+) \|", line)
        if row:
            found[row[1]] = (heading, row[2], row[3])
    assert found == {
        rule.name: (rule.property.value, rule.meaning, rule.git_reaction) for rule in RULES.values()
    }


def test_every_property_has_rules() -> None:
    assert {rule.property for rule in RULES.values()} == set(Property)


@pytest.mark.parametrize("name", RULES)
def test_every_rule_has_a_test_that_breaks_it(name: str) -> None:
    """By its name; rules about objects by both halves of theirs."""
    root, separator, damage = name.partition("-object-")
    needles = [root, damage] if separator and damage else [name]
    texts = [path.read_text() for path in (ROOT / "tests").rglob("test_oracle_*.py")]
    for needle in needles:
        assert any(re.search(rf"\b{needle}\b", text) for text in texts), needle
