"""Deltas, by the instructions of gitformat-pack(5), spelled out by hand."""

import pytest

from impl.objects.delta import DeltaBase, apply_delta, delta_sizes
from impl.objects.pack_errors import DamagedDelta

BASE = b"0123456789abcdef"


def test_copies_and_inserts() -> None:
    # Sizes 16 and 7; copy 4 bytes from offset 10; insert "XYZ".
    delta = bytes([16, 7, 0x80 | 0x01 | 0x10, 10, 4, 3]) + b"XYZ"
    assert apply_delta(BASE, delta) == b"abcdXYZ"
    assert delta_sizes(delta) == (16, 7)


def test_an_absent_copy_size_means_64_kib() -> None:
    base = bytes(range(256)) * 257
    delta = bytes([0x80, 0x82, 0x04]) + bytes([0x80, 0x80, 0x04]) + bytes([0x80])
    assert apply_delta(base, delta) == base[:0x10000]


def test_all_seven_argument_bytes_of_a_copy() -> None:
    base = bytes(0x01020304) + b"end"
    sizes = bytes([0x87, 0x86, 0x88, 0x08]) + bytes([3])
    copy = bytes([0xFF, 0x04, 0x03, 0x02, 0x01, 3, 0, 0])
    assert apply_delta(base, sizes + copy) == b"end"


@pytest.mark.parametrize(
    ("delta", "message"),
    [
        (b"", "no size"),
        (bytes([16]), "no size"),
        (b"\xff" * 12, "no size"),
        (bytes([15, 1, 1]) + b"x", "base of 15 bytes"),
        (bytes([16, 1, 0]), "reserved"),
        (bytes([16, 3, 3]) + b"xy", "ends within new bytes"),
        (bytes([16, 4, 0x91, 14, 4]), "copy ends at byte 18 of 16"),
        (bytes([16, 4, 0x91, 14]), "ends within a copy"),
        (bytes([16, 5, 1]) + b"x", "makes 1 bytes"),
        (bytes([16, 0, 1]) + b"x", "makes 1 bytes"),
    ],
)
def test_damage(delta: bytes, message: str) -> None:
    with pytest.raises(DamagedDelta, match=message):
        apply_delta(BASE, delta)


def test_a_small_change_makes_a_small_delta() -> None:
    lines = [b"line %d of the file\n" % number for number in range(2000)]
    changed = [*lines[:700], b"something else\n", *lines[705:1200], *lines[1300:]]
    base, target = b"".join(lines), b"".join(changed)
    delta = DeltaBase(base).delta(target, len(target))
    assert delta is not None
    assert apply_delta(base, delta) == target
    assert len(delta) < 100


def test_no_delta_beyond_the_limit() -> None:
    target = bytes(range(256)) * 4
    assert DeltaBase(b"nothing alike\n" * 10).delta(target, 512) is None


def test_copies_longer_than_an_instruction_holds() -> None:
    base = b"\n".join(b"%d" % number for number in range(100_000))
    delta = DeltaBase(base).delta(base, 1000)
    assert delta is not None
    assert apply_delta(base, delta) == base
    assert len(delta) < 100


def test_shared_anchors_count_lines_in_common() -> None:
    one = DeltaBase(b"".join(b"a line that is long enough: %03d\n" % at for at in range(50)))
    other = DeltaBase(b"".join(b"a line that is long enough: %03d\n" % at for at in range(40, 90)))
    apart = DeltaBase(
        b"".join(b"another kind of line, no less long: %03d\n" % at for at in range(9))
    )
    assert one.shared_anchors(apart) == 0
    assert one.shared_anchors(one) >= one.shared_anchors(other) > 0
