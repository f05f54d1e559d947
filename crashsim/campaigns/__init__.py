"""What people ask for: run, matrix, repro, bench."""
