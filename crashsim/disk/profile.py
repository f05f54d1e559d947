"""What a kind of device owes its host when the power goes, and how long it lets it wait.

Latencies are round figures for a kind, chosen for comparing what programs cost: no device has just
these, and none has constant ones. What they were chosen by:

- `hdd`: at 7,200 rotations a minute one takes 8.3 ms, and a write that has to reach the platter
  waits for half of one on average, after the arm has moved.
- `sata-ssd`, `nvme`, both without power-loss protection: an fsync(2) of a Samsung 960 Pro took
  3.5 ms (Percona, "Why Consumer SSD Reviews are Useless for Database Performance Use Case", 2018);
  newer ones take from one to a few ("SSDs, power loss protection and fsync latency",
  smalldatum.blogspot.com, January 2026).
- `nvme-plp`: tens of microseconds by the latter; a FLUSH has nothing to do there (NVMe base
  specification: without a volatile write cache it completes successfully and has no effect).
- Writes go into the device's cache: what the link and the controller take.
"""

from dataclasses import dataclass

from crashsim.disk.latency import NO_LATENCY, Latency
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
    :ivar write_latency_ms: from the arrival of a write to its reply, in milliseconds.
    :ivar flush_latency_ms: the same of a FLUSH; a write with FUA takes both.
    :ivar summary: one line for `--help`.
    """

    name: str
    volatile_cache: bool = True
    atomic_unit_bytes: int = SECTOR_BYTES
    write_latency_ms: float = 0.0
    flush_latency_ms: float = 0.0
    summary: str = ""

    def __post_init__(self) -> None:
        """Refuse an atomic unit that is no power of two or less than a sector."""
        unit = self.atomic_unit_bytes
        if unit < SECTOR_BYTES or unit & (unit - 1):
            raise ValueError(f"{unit} bytes is no atomic unit: a power of two from 512 on")

    @property
    def latency(self) -> Latency:
        """How long the crash disk lets a guest wait."""
        if not (self.write_latency_ms or self.flush_latency_ms):
            return NO_LATENCY
        return Latency(self.write_latency_ms / 1000, self.flush_latency_ms / 1000)


PROFILES = {
    profile.name: profile
    for profile in (
        DeviceProfile("default", summary="volatile write cache, sectors of 512 bytes"),
        DeviceProfile("4kn", atomic_unit_bytes=4096, summary="volatile cache, sectors of 4 KiB"),
        DeviceProfile(
            "hdd",
            atomic_unit_bytes=4096,
            write_latency_ms=0.1,
            flush_latency_ms=8.3,
            summary="disk of 7,200 rpm, sectors of 4 KiB: a flush takes 8.3 ms",
        ),
        DeviceProfile(
            "sata-ssd",
            write_latency_ms=0.1,
            flush_latency_ms=2.0,
            summary="SSD at SATA without power-loss protection: a flush takes 2 ms",
        ),
        DeviceProfile(
            "nvme",
            write_latency_ms=0.02,
            flush_latency_ms=1.0,
            summary="NVMe without power-loss protection: a flush takes 1 ms",
        ),
        DeviceProfile(
            "nvme-plp",
            volatile_cache=False,
            atomic_unit_bytes=4096,
            write_latency_ms=0.02,
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
