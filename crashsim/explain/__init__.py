"""Findings explained in words: what was lost, what was durable instead, which call was missing."""
