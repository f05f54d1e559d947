"""One target under atheris: `python -m tests.fuzz.worker TARGET CORPUS LIBFUZZER-OPTION...`."""

import contextlib
import importlib
import sys
from typing import Any

try:
    atheris: Any = importlib.import_module("atheris")
except ModuleNotFoundError:
    sys.exit("fuzzing needs atheris: pip install atheris")

with atheris.instrument_imports(include=["impl"]):
    from impl.errors import StoreError
    from tests.fuzz.targets import targets


def main() -> None:
    """Does not return: libFuzzer exits."""
    name, *options = sys.argv[1:]
    target = targets()[name]

    def try_one(data: bytes) -> None:
        with contextlib.suppress(StoreError):
            target(data)

    atheris.Setup([sys.argv[0], *options], try_one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
