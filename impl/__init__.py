"""The reference git-format object store, in which fsync methods are tried."""
