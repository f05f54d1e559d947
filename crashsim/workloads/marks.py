"""The texts of marks: which are the recorder's own and which are promises.

The recorder's own are JSON objects with the key `crashsim` first; every other mark is a promise
that a workload made, or that the campaign made on its behalf.
"""

import json
from collections.abc import Iterable

from crashsim.disk.log_format import MAXIMUM_MARK_BYTES
from crashsim.errors import UsageError

START = '{"crashsim":"start"}'
"""Exploration begins here: everything before it was made durable."""
END = '{"crashsim":"end"}'
"""The workload ended here; what follows only brings out every write that was still due."""
AFTERMATH = '{"crashsim":"aftermath"}'
"""Exploration ends here: what is promised behind it never was, and says only what was visible."""
FAILED = '{"crashsim":"failed"}'
"""The recording was given up here."""

_RESERVED = '{"crashsim":'


class BadPromise(UsageError):
    """A program made a promise that the log cannot hold."""


def step_mark(name: str) -> str:
    """The mark made just before the step `name` begins."""
    return json.dumps({"crashsim": "step", "name": name}, separators=(",", ":"))


def step_name(mark: str) -> str | None:
    """The name of the step that `mark` begins; None for any other mark."""
    if not is_reserved(mark):
        return None
    content = json.loads(mark)
    return str(content["name"]) if content.get("crashsim") == "step" else None


def is_reserved(mark: str) -> bool:
    """Whether a mark is the recorder's own."""
    return mark.startswith(_RESERVED)


def promises(marks: Iterable[str]) -> tuple[str, ...]:
    """The promises among `marks`, in their order."""
    return tuple(mark for mark in marks if not is_reserved(mark))


def checked_promise(text: str) -> str:
    """A promise as it came out of the guest, or BadPromise.

    One line each, since a check gets them as lines of a file (DESIGN section 5).
    """
    if is_reserved(text):
        raise BadPromise(
            f"a promise must not begin with {_RESERVED}: such marks are crashsim's own"
        )
    if "\n" in text or "\0" in text:
        raise BadPromise(f"a promise is one line of text: {text[:80]!r} has a line break in it")
    if len(text.encode("utf-8", "surrogateescape")) > MAXIMUM_MARK_BYTES:
        raise BadPromise(f"a promise is longer than {MAXIMUM_MARK_BYTES} bytes: {text[:80]!r}...")
    return text
