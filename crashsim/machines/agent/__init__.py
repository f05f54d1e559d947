"""The guest's side: standard library only, Python 3.11 or newer; runs inside the VM."""
