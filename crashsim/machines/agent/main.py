"""Where the agent starts in the guest: `python3 -S -E /run/crashsim/agent/main.py`.

Its modules are siblings that import one another relatively, as part of `crashsim.machines.agent` on
the host (where the tests import them) and of a package called `agent` in the guest.
"""

import importlib
import os
import sys

PORT = "/dev/virtio-ports/crashsim.agent"


def main() -> None:
    """Serve the host until it hangs up."""
    directory = os.path.dirname(os.path.abspath(__file__))
    sys.path[0] = os.path.dirname(directory)
    service = importlib.import_module(f"{os.path.basename(directory)}.service")
    service.serve(PORT)


if __name__ == "__main__":
    main()
