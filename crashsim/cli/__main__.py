"""`python -m crashsim.cli`: the same as the console script."""

from crashsim.cli.main import main

main()
