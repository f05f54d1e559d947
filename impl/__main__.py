"""`python -m impl`: the store's command line."""

import sys

from impl.cli import main

sys.exit(main())
