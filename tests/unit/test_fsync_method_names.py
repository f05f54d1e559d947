"""The names under which installed fsync methods are found."""

from crashsim.workloads.impl import method_names
from impl.durability.registry import SHIPPED


def test_every_shipped_method_is_an_entry_point() -> None:
    assert set(SHIPPED) <= set(method_names())
