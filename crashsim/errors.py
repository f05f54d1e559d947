"""The ways in which crashsim can fail, each with the exit code that the command line gives it.

Every class below stands for one kind of failure; layers derive their own from the three roots.
A message says what happened, to what, and what to do next.
"""


class CrashsimError(Exception):
    """Root of every error that crashsim raises on purpose.

    :cvar exit_code: the exit code of a command that ends with this error (DESIGN: 2 or 3).
    """

    exit_code = 3


class UsageError(CrashsimError):
    """The call or its input is wrong: an unknown filesystem, a damaged bundle, a missing file."""

    exit_code = 2


class InfrastructureError(CrashsimError):
    """The machinery failed (no machine, no image, the guest died): never a verdict."""

    exit_code = 3
