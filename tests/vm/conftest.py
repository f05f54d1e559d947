"""Fixtures for tests with real guests."""

import warnings

import pytest

from crashsim.machines.failures import MachineUnusable
from crashsim.machines.qemu import QemuMachine


@pytest.fixture(scope="session")
def machine() -> QemuMachine:
    """The default machine on the default image; both are made first where they are missing."""
    try:
        return QemuMachine()
    except MachineUnusable as error:
        warnings.warn(f"NO REAL GUEST WAS TESTED: {error}", stacklevel=1)
        pytest.skip(f"no virtual machines on this host: {error}")
