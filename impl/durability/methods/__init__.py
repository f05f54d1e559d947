"""The fsync methods, one file each."""
