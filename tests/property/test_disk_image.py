"""Crash states as images, against a naive replay."""

import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from crashsim.disk.crash_disk import CrashStateDisk
from crashsim.disk.durability import durable_positions, pending
from crashsim.disk.image import IllegalState, ImageIndex
from crashsim.disk.profile import PROFILES, DeviceProfile
from crashsim.disk.request import PAGE_BYTES, Operation, Request
from crashsim.disk.state import CrashState, TornWrite
from crashsim.disk.survivor import write_image
from tests.support.disk_histories import (
    DISK_BYTES,
    DISK_SECTORS,
    SECTOR,
    History,
    histories,
    requests,
    states,
)

profiles = st.sampled_from(
    [*PROFILES.values(), DeviceProfile("odd", atomic_unit_bytes=1024)],
)
bases = st.one_of(
    st.none(),
    st.lists(st.integers(0, 3), min_size=DISK_SECTORS, max_size=DISK_SECTORS).map(
        lambda values: b"".join(bytes([value]) * SECTOR for value in values)
    ),
)


@settings(deadline=None)
@given(histories(), profiles)
def test_durability_is_the_rule(history: History, profile: DeviceProfile) -> None:
    with tempfile.TemporaryDirectory() as directory, history.record(Path(directory)) as log:
        durable = durable_positions(log, profile)
        for cut in range(len(history.events) + 1):
            expected = [
                request.changes_media and history.durable(number, cut, profile.volatile_cache)
                for number, request in enumerate(history.requests)
            ]
            assert (durable <= cut).tolist() == expected
            lost = pending(log, cut, durable).tolist()
            assert lost == history.pending(cut, profile.volatile_cache)


@settings(deadline=None)
@given(st.data(), histories(), profiles, bases)
def test_images_are_those_of_a_replay(
    data: st.DataObject, history: History, profile: DeviceProfile, base: bytes | None
) -> None:
    unit = profile.atomic_unit_bytes
    with tempfile.TemporaryDirectory() as directory, history.record(Path(directory)) as log:
        index = ImageIndex(log, profile, _base_file(directory, base))
        chosen = data.draw(st.lists(states(history, unit, profile.volatile_cache), max_size=4))
        images = []
        for state in chosen:
            index.check_legal(state)
            image = history.image(state, unit, base or bytes(DISK_BYTES))
            images.append(image)
            assert index.read(state, 0, DISK_BYTES) == image
            first = data.draw(st.integers(0, DISK_SECTORS))
            end = data.draw(st.integers(first, DISK_SECTORS))
            part = image[first * SECTOR : end * SECTOR]
            assert index.read(state, first * SECTOR, (end - first) * SECTOR) == part
        for one, image in zip(chosen, images, strict=True):
            for other, other_image in zip(chosen, images, strict=True):
                differing = [
                    page
                    for page in range(DISK_BYTES // PAGE_BYTES)
                    if _page(image, page) != _page(other_image, page)
                ]
                assert index.differing_pages(one, other).tolist() == differing
                same = index.identity(one) == index.identity(other)
                assert same == (image == other_image)
                for page in range(DISK_BYTES // PAGE_BYTES):
                    assert index.page(one, page) == _page(image, page)
                    equal = index.page_digest(one, page) == index.page_digest(other, page)
                    assert equal == (page not in differing)


@settings(deadline=None)
@given(st.data(), histories())
def test_reads_through_the_disk(data: st.DataObject, history: History) -> None:
    """The guest sees the state under its own writes, and what it read of the state is known."""
    with tempfile.TemporaryDirectory() as directory, history.record(Path(directory)) as log:
        disk = CrashStateDisk(ImageIndex(log))
        for state in data.draw(st.lists(states(history), max_size=3)):
            disk.show(state)
            image = bytearray(history.image(state, SECTOR))
            written: set[int] = set()
            read: set[int] = set()
            for request in data.draw(st.lists(st.one_of(requests(), _reads()), max_size=8)):
                sectors = _sectors(request)
                reply = disk.perform(request)
                if request.operation is Operation.READ:
                    read |= {each // 8 for each in sectors if each not in written}
                    assert reply == image[request.offset_bytes :][: request.length_bytes]
                elif request.operation is not Operation.FLUSH:
                    written |= set(sectors)
                    contents = request.data or bytes(request.length_bytes)
                    place = slice(sectors.start * SECTOR, sectors.stop * SECTOR)
                    image[place] = contents
            assert set(disk.pages_read().tolist()) == read & _pages_given_data(history)
        disk.close()


@settings(deadline=None)
@given(histories())
def test_exactly_the_pending_writes_may_be_lost(history: History) -> None:
    with tempfile.TemporaryDirectory() as directory, history.record(Path(directory)) as log:
        index = ImageIndex(log)
        for cut in range(len(history.events) + 1):
            pending_writes = set(history.pending(cut))
            for number in range(-1, len(history.requests) + 1):
                state = CrashState(cut, frozenset({number}))
                assert _is_legal(index, state) == (number in pending_writes)
            assert _is_legal(index, CrashState(cut, frozenset(pending_writes)))
        for wrong in (-1, len(history.events) + 1):
            assert not _is_legal(index, CrashState(wrong))


@settings(deadline=None)
@given(st.data(), histories())
def test_torn_writes_keep_a_proper_part(data: st.DataObject, history: History) -> None:
    cut = data.draw(st.integers(0, len(history.events)))
    with tempfile.TemporaryDirectory() as directory, history.record(Path(directory)) as log:
        index = ImageIndex(log)
        for number in history.pending(cut):
            units = history.requests[number].length_bytes // SECTOR
            for kept in ((), tuple(range(units)), (units,), (-1,), (1, 0), (0, 0)):
                torn = [TornWrite(number, kept)]
                assert not _is_legal(index, CrashState.make(cut, (), torn))
            if units > 1:
                torn = [TornWrite(number, (units - 1,))]
                assert _is_legal(index, CrashState.make(cut, (), torn))
                assert not _is_legal(index, CrashState.make(cut, [number], torn))
                torn.append(TornWrite(number, (0,)))
                assert not _is_legal(index, CrashState.make(cut, (), torn))


def _is_legal(index: ImageIndex, state: CrashState) -> bool:
    try:
        index.check_legal(state)
    except IllegalState:
        return False
    return True


def _base_file(directory: str, base: bytes | None) -> Path | None:
    if base is None:
        return None
    path = Path(directory, "base.img")
    path.write_bytes(base)
    return path


def _page(image: bytes, number: int) -> bytes:
    return image[number * PAGE_BYTES : (number + 1) * PAGE_BYTES]


def _reads() -> st.SearchStrategy[Request]:
    extents = st.tuples(st.integers(0, DISK_SECTORS - 1), st.integers(1, DISK_SECTORS))
    return extents.map(
        lambda extent: Request(
            Operation.READ,
            extent[0] * SECTOR,
            min(extent[1], DISK_SECTORS - extent[0]) * SECTOR,
        )
    )


def _sectors(request: Request) -> range:
    first = request.offset_bytes // SECTOR
    return range(first, first + request.length_bytes // SECTOR)


def _pages_given_data(history: History) -> set[int]:
    writes = (each for each in history.requests if each.operation is Operation.WRITE)
    return set(np.unique([each // 8 for write in writes for each in _sectors(write)]).tolist())


@settings(deadline=None)
@given(st.data(), histories(), histories(), bases)
def test_a_nested_state_is_what_the_first_cut_left_and_what_the_second_kept(
    data: st.DataObject, first: History, second: History, base: bytes | None
) -> None:
    """What the first cut lost stays lost, and what it kept can never be lost any more."""
    began = base or bytes(DISK_BYTES)
    with tempfile.TemporaryDirectory() as directory, first.record(Path(directory)) as log:
        index = ImageIndex(log, base=_base_file(directory, base))
        first_cut = data.draw(states(first))
        survivor = Path(directory, "survivor.img")
        write_image(index, first_cut, survivor)
        left = first.image(first_cut, SECTOR, began)
        with second.record(Path(directory, "second")) as later:
            nested = ImageIndex(later, base=survivor)
            second_cut = data.draw(states(second))
            nested.check_legal(second_cut)
            assert nested.read(second_cut, 0, DISK_BYTES) == second.image(second_cut, SECTOR, left)
            everything = CrashState.make(len(second.events), second.pending(len(second.events)))
            kept = nested.read(everything, 0, DISK_BYTES)
            assert kept == second.image(everything, SECTOR, left)


@settings(deadline=None)
@given(st.data(), histories(), st.lists(requests(), max_size=6))
def test_pages_that_a_recovery_changed(
    data: st.DataObject, history: History, guest: list[Request]
) -> None:
    with tempfile.TemporaryDirectory() as directory, history.record(Path(directory)) as log:
        disk = CrashStateDisk(ImageIndex(log))
        state = data.draw(states(history))
        before = history.image(state, SECTOR)
        disk.show(state)
        after = bytearray(before)
        for request in guest:
            disk.perform(request)
            if request.changes_media:
                written = request.data or bytes(request.length_bytes)
                after[request.offset_bytes : request.offset_bytes + len(written)] = written
        changed = {at // PAGE_BYTES for at in range(DISK_BYTES) if before[at] != after[at]}
        assert bool(disk.pages_changed()) == bool(changed)
        # A run of writes that does not begin with a page counts in pieces of a page from there.
        assert len(changed) / 2 <= disk.pages_changed() <= 2 * len(changed)
        disk.show(state)
        assert disk.pages_changed() == 0
        disk.close()
