"""The log, the crash disk, crash states and device profiles."""
