"""Programs that make promises, and how they are recorded."""
