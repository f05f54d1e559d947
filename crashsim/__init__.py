"""crashsim: crash-consistency testing of real programs on real filesystems."""

__version__ = "0.1.0"
