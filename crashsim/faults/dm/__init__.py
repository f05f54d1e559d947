"""Device-mapper from Python: its ioctl interface, typed tables, and devices that never stay behind.

`session.DeviceMapper` is where to begin. Everything here is standard library only, so that it runs
as it is inside a guest (`staging.guest_files`).
"""
