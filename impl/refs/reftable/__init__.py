"""References in reftables: the file format, the stack of tables, compaction."""
