"""The first process of a container: starts QEMU with descriptors of another process, and ends it.

Runs in the container's Python, standard library only: `docker_process.py` hands its source to the
interpreter. It connects to the socket that is its first argument and receives, in one message,
QEMU's command line as JSON with the descriptors that it is to inherit and their numbers. It sends
back a descriptor of itself (pidfd_open(2)), by which its end can be awaited from any namespace, and
QEMU's exit status when that ends. When the other side hangs up, or dies in whatever way, QEMU is
killed; and whatever else may be in the container is killed by the kernel (pid_namespaces(7)).
"""

import json
import os
import select
import signal
import socket
import sys

MESSAGE_BYTES_MAX = 1 << 16
DESCRIPTORS_MAX = 32


def main(path: str) -> int:
    """Serve one launch; the exit status."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect(path)
        argv, numbers, parent, descriptors = receive(connection)
        own = os.pidfd_open(os.getpid())
        actions = [
            (os.POSIX_SPAWN_DUP2, here, there)
            for there, here in zip(numbers, descriptors, strict=True)
        ]
        qemu = os.posix_spawnp(argv[0], argv, os.environ, file_actions=actions)
        for descriptor in descriptors:
            os.close(descriptor)  # QEMU's channels must end with QEMU
        socket.send_fds(connection, [b"started"], [own])
        ended = os.pidfd_open(qemu)
        select.select([connection.fileno(), parent, ended], [], [])
        os.kill(qemu, signal.SIGKILL)  # it has not been reaped, so the number is still its
        status = os.waitstatus_to_exitcode(os.waitpid(qemu, 0)[1])
        try:
            connection.send(b"%d" % status)
        except (BrokenPipeError, ConnectionResetError):
            return 0  # nobody wants to know
    return 0


def receive(connection: socket.socket) -> tuple[list[str], list[int], int, list[int]]:
    """QEMU's command line, its descriptors' numbers, the other process, and the descriptors.

    They are moved to numbers above all those, so that none is overwritten by another.
    """
    message, received, _, _ = socket.recv_fds(connection, MESSAGE_BYTES_MAX, DESCRIPTORS_MAX)
    request = json.loads(message)
    free = max(request["numbers"]) + DESCRIPTORS_MAX
    moved = []
    for index, descriptor in enumerate(received):
        moved.append(os.dup2(descriptor, free + index, inheritable=False))
        os.close(descriptor)
    return request["argv"], request["numbers"], moved[0], moved[1:]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
