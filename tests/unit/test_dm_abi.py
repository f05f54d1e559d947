"""The structures of device-mapper's ioctl interface, byte by byte."""

import struct

import pytest

from crashsim.faults.dm import abi


def answer(data: bytes, *, start: int = 312, size: int | None = None) -> bytearray:
    """What the kernel might leave in a buffer."""
    buffer = abi.pack(abi.Header("one", "CRASHSIM-1"), data, 4096)
    struct.pack_into("=2I", buffer, 12, start + len(data) if size is None else size, start)
    return buffer


def test_request_codes_are_those_of_the_header() -> None:
    # As strace(1) prints them for dmsetup: DM_VERSION, DM_TABLE_LOAD, DM_DEV_ARM_POLL.
    assert abi.request_code(abi.DM_VERSION) == 0xC138FD00
    assert abi.request_code(abi.DM_TABLE_LOAD) == 0xC138FD09
    assert abi.request_code(abi.DM_DEV_ARM_POLL) == 0xC138FD10


def test_a_request_is_laid_out_as_struct_dm_ioctl() -> None:
    header = abi.Header("flaky", "uuid-1", abi.DM_SUSPEND_FLAG, 2, 0, 7, 0x12345)

    buffer = abi.pack(header, b"payload", 4096)

    assert len(buffer) == 4096
    assert struct.unpack_from("=3I2I", buffer) == (4, 0, 0, 4096, 312)
    assert struct.unpack_from("=IiIIIQ", buffer, 20) == (2, 0, abi.DM_SUSPEND_FLAG, 7, 0, 0x12345)
    assert buffer[48:54] == b"flaky\0"
    assert buffer[176:183] == b"uuid-1\0"
    assert buffer[312:320] == b"payload\0"


def test_an_answer_gives_back_header_and_data() -> None:
    header, data = abi.unpack(answer(b"12345678"))

    assert (header.name, header.uuid, data) == ("one", "CRASHSIM-1", b"12345678")


def test_an_answer_without_data_has_a_size_below_its_start() -> None:
    assert abi.unpack(answer(b"", size=305))[1] == b""


@pytest.mark.parametrize(
    "buffer",
    [b"short", answer(b"", start=5000), answer(b"", start=100), answer(b"", size=1 << 31)],
    ids=["short", "start beyond", "start inside", "size beyond"],
)
def test_an_answer_of_another_layout_is_refused(buffer: bytes) -> None:
    with pytest.raises(abi.BadAnswer):
        abi.unpack(buffer)


ROWS = [
    abi.TargetRow(0, 8, "linear", "254:16 0"),
    abi.TargetRow(8, 1 << 40, "flakey", "254:16 8 1 2 1 drop_writes"),
    abi.TargetRow((1 << 40) + 8, 16, "error", ""),
]


def test_loaded_rows_give_the_distance_to_the_next_one_and_are_aligned() -> None:
    packed = abi.pack_rows(ROWS)

    offset = 0
    for row in ROWS:
        start, length, status, step, kind = struct.unpack_from("=2QiI16s", packed, offset)
        assert (start, length, status) == (row.start_sector, row.length_sectors, 0)
        assert kind.rstrip(b"\0").decode() == row.kind
        text = packed[offset + 40 : offset + step]
        assert text.rstrip(b"\0").decode() == row.parameters
        assert text.endswith(b"\0")
        assert step % 8 == 0
        offset += step
    assert offset == len(packed)


def test_reported_rows_count_from_the_first_one() -> None:
    data = b""
    for row in ROWS:
        text = row.parameters.encode() + b"\0"
        size = -(-(40 + len(text)) // 8) * 8
        numbers = (row.start_sector, row.length_sectors, 0, len(data) + size, row.kind.encode())
        data += (struct.pack("=2QiI16s", *numbers) + text).ljust(size, b"\0")

    assert abi.unpack_rows(data, 3) == ROWS


@pytest.mark.parametrize("cut", [10, 41])
def test_a_cut_off_row_is_refused(cut: int) -> None:
    with pytest.raises(abi.BadAnswer):
        abi.unpack_rows(abi.pack_rows(ROWS)[:cut], 1)


def test_names_and_versions_are_chains() -> None:
    names = struct.pack("=QI", 0xFD00, 24) + b"one\0".ljust(12, b"\0")
    names += struct.pack("=QI", 0xFD01, 0) + b"other\0"
    versions = struct.pack("=4I", 24, 1, 5, 0) + b"flakey\0\0"
    versions += struct.pack("=4I", 0, 1, 4, 0) + b"linear\0\0"

    assert abi.unpack_names(names) == [("one", 0xFD00), ("other", 0xFD01)]
    assert abi.unpack_versions(versions) == [("flakey", (1, 5, 0)), ("linear", (1, 4, 0))]


def test_a_list_of_no_devices_is_one_empty_entry() -> None:
    assert abi.unpack_names(struct.pack("=QI", 0, 0) + b"\0" * 4) == []


def test_a_chain_that_leaves_its_data_is_refused() -> None:
    with pytest.raises(abi.BadAnswer):
        abi.unpack_names(struct.pack("=QI", 0xFD00, 4000) + b"one\0")


@pytest.mark.parametrize(
    ("number", "expected"),
    [(0xFD00, (253, 0)), (0xFE10, (254, 16)), (0x0010FDFF, (253, 511)), (0xFFF00, (4095, 0))],
)
def test_device_numbers_are_decoded(number: int, expected: tuple[int, int]) -> None:
    assert abi.decode_device(number) == expected


def test_a_message_has_its_sector_first() -> None:
    assert abi.pack_message(9, "mark a") == b"\x09" + bytes(7) + b"mark a\0"
