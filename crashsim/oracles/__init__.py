"""Oracles: what must hold after recovery, and the checkers that decide it."""
