"""The commands, one module each: `run(context, arguments)` returns the exit code."""
