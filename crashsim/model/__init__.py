"""A simulated operating system, and what a power cut may leave of its filesystem.

`simulated.Simulated` is the machine, `states.crash_states` the filesystems that a crash may leave
of its log under one of `models.MODELS`, `decide.decide` a check of them all.
docs/persistence-models.md is the contract.
"""
