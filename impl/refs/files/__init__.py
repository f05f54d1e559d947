"""References in files: loose, packed, and their reflogs."""
