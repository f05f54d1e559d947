"""What a kind of device owes its host when the power goes."""

from dataclasses import dataclass

from crashsim.disk.request import SECTOR_BYTES
from crashsim.errors import UsageError


class UnknownProfile(UsageError):
    """There is no device profile of this name."""


@dataclass(frozen=True, slots=True)
class DeviceProfile:
    """A device's promises.

    :ivar volatile_cache: whether a completed write may be lost until a FLUSH; without one every
        completed write is durable (NVMe base specification, Identify Controller, VWC).
    :ivar atomic_unit_bytes: how much of a write is wholly old or wholly new after a power cut
        (NVMe: AWUPF; one logical block is the least that any device promises).
    :ivar summary: one line for `--help`.
    """

    name: str
    volatile_cache: bool = True
    atomic_unit_bytes: int = SECTOR_BYTES
    summary: str = ""

    def __post_init__(self) -> None:
        """Refuse an atomic unit that is no power of two or less than a sector."""
        unit = self.atomic_unit_bytes
        if unit < SECTOR_BYTES or unit & (unit - 1):
            raise ValueError(f"{unit} bytes is no atomic unit: a power of two from 512 on")


PROFILES = {
    profile.name: profile
    for profile in (
        DeviceProfile("default", summary="volatile write cache, sectors of 512 bytes"),
        DeviceProfile("4kn", atomic_unit_bytes=4096, summary="volatile cache, sectors of 4 KiB"),
        DeviceProfile(
            "nvme-plp",
            volatile_cache=False,
            atomic_unit_bytes=4096,
            summary="NVMe with power-loss protection: a completed write is durable",
        ),
    )
}
DEFAULT_PROFILE = PROFILES["default"]


def parse_profile(name: str) -> DeviceProfile:
    """The profile of this name. Raises UnknownProfile."""
    try:
        return PROFILES[name]
    except KeyError:
        known = ", ".join(PROFILES)
        raise UnknownProfile(f"unknown device profile {name!r}: choose one of {known}") from None
