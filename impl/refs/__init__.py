"""References: names for objects, and the history of what they named."""
