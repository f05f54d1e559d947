"""The names under which installed fsync methods are found."""

from impl.durability.registry import SHIPPED

from crashsim.workloads.impl import method_names


def test_every_shipped_method_is_an_entry_point() -> None:
    assert set(SHIPPED) <= set(method_names())
