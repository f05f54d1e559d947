"""Objects: their formats, loose and in packs, and what is reachable from where."""
