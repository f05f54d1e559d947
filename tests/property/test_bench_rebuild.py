"""The usual way rebuilds the image that the crash disk serves: else the two cannot be compared."""

from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from crashsim.campaigns.bench_rebuild import rebuild
from crashsim.disk.image import ImageIndex
from crashsim.disk.profile import DeviceProfile
from crashsim.disk.request import Operation, Request
from crashsim.disk.state import CrashState
from tests.support.disk_histories import DISK_BYTES, SECTOR, History, histories, states

EVERYTHING = Request(Operation.READ, 0, DISK_BYTES)


def compare(history: History, state: CrashState, unit: int) -> None:
    with TemporaryDirectory() as directory, history.record(Path(directory)) as log:
        index = ImageIndex(log, DeviceProfile("test", atomic_unit_bytes=unit))
        index.check_legal(state)
        with closing(rebuild(log, state, unit)) as disk:
            assert disk.perform(EVERYTHING) == index.read(state, 0, DISK_BYTES)


@given(st.data(), st.sampled_from([SECTOR, 2 * SECTOR]))
def test_a_rebuilt_image_is_the_one_that_is_served(data: st.DataObject, unit: int) -> None:
    """Dropped, torn and overlapping writes, zeroes and discards, requests that never end."""
    history = data.draw(histories())
    compare(history, data.draw(states(history, unit)), unit)
