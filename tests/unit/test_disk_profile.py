"""Device profiles by name."""

import pytest

from crashsim.disk.profile import DEFAULT_PROFILE, DeviceProfile, UnknownProfile, parse_profile


def test_named_profiles() -> None:
    assert parse_profile("default") is DEFAULT_PROFILE
    assert (DEFAULT_PROFILE.volatile_cache, DEFAULT_PROFILE.atomic_unit_bytes) == (True, 512)
    assert not parse_profile("nvme-plp").volatile_cache
    assert parse_profile("4kn").atomic_unit_bytes == 4096


def test_an_unknown_name_is_told_with_the_known_ones() -> None:
    with pytest.raises(UnknownProfile, match=r"'floppy'.*default, 4kn, nvme-plp"):
        parse_profile("floppy")


@pytest.mark.parametrize("unit", [0, 256, 513, 1536, -512])
def test_an_impossible_unit_is_refused(unit: int) -> None:
    with pytest.raises(ValueError, match="atomic unit"):
        DeviceProfile("odd", atomic_unit_bytes=unit)
