"""What runs in a Vagrant VM, as root: it makes guests of it, and records with its kernel.

Standard library only: the VM has Python and nothing of ours but what `staging.guest_files` names.
"""
