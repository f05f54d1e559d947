"""Disposable machines with their own kernel, and how the host talks to them."""
