"""Device profiles by name."""

import pytest

from crashsim.disk.latency import NO_LATENCY, Latency
from crashsim.disk.profile import (
    DEFAULT_PROFILE,
    PROFILES,
    DeviceProfile,
    UnknownProfile,
    parse_profile,
)


def test_named_profiles() -> None:
    assert parse_profile("default") is DEFAULT_PROFILE
    assert (DEFAULT_PROFILE.volatile_cache, DEFAULT_PROFILE.atomic_unit_bytes) == (True, 512)
    assert not parse_profile("nvme-plp").volatile_cache
    assert parse_profile("4kn").atomic_unit_bytes == 4096


def test_an_unknown_name_is_told_with_the_known_ones() -> None:
    with pytest.raises(
        UnknownProfile, match=r"'floppy'.*default, 4kn, hdd, sata-ssd, nvme, nvme-plp"
    ):
        parse_profile("floppy")


@pytest.mark.parametrize("unit", [0, 256, 513, 1536, -512])
def test_an_impossible_unit_is_refused(unit: int) -> None:
    with pytest.raises(ValueError, match="atomic unit"):
        DeviceProfile("odd", atomic_unit_bytes=unit)


def test_a_profile_has_the_latency_of_its_device() -> None:
    assert DEFAULT_PROFILE.latency is NO_LATENCY
    assert parse_profile("hdd").latency == Latency(0.0001, 0.0083)
    assert parse_profile("nvme-plp").latency.flush_seconds == 0
    flushes = [PROFILES[name].flush_latency_ms for name in ("nvme-plp", "nvme", "sata-ssd", "hdd")]
    assert flushes == sorted(flushes)


def test_an_impossible_latency_is_refused() -> None:
    with pytest.raises(ValueError, match="no latency"):
        assert DeviceProfile("odd", flush_latency_ms=-1).latency
