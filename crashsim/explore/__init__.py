"""Which crash states to look at, pruning, shrinking, engines."""
