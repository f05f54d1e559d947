"""What all tests share: Hypothesis is repeatable in CI and never in a hurry; Ctrl-C works."""

import os
import signal

import pytest
from hypothesis import settings

settings.register_profile("default", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")

# A shell starts what it puts into the background with SIGINT ignored, and so would be what the
# tests start: they send it.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of our own: they must be declared here, the first file that pytest reads."""
    parser.addoption(
        "--all-wrong-methods",
        action="store_true",
        help="tests/vm: every wrong fsync method in a guest (ten minutes and more without KVM)",
    )
