"""A simulated operating system, and what a power cut may leave of its filesystem."""
