"""Shell scripts of crashsim's own that run in a guest, beside the workload's programs."""

from crashsim.errors import InfrastructureError
from crashsim.machines.protocol import Guest


class GuestCommandFailed(InfrastructureError):
    """A command that crashsim itself runs in the guest failed."""


def run_in(guest: Guest, script: str, *arguments: str, timeout_seconds: float = 60.0) -> None:
    """Run crashsim's own shell script in the guest. Raises GuestCommandFailed."""
    result = guest.run(["sh", "-euc", script, "sh", *arguments], timeout_seconds=timeout_seconds)
    if result.returncode != 0:
        told = result.stderr.decode("utf-8", "replace").strip()
        raise GuestCommandFailed(f"in the guest, {script!r} failed: {told}")
