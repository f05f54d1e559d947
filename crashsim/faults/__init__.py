"""Power cuts and disturbances, as data."""
