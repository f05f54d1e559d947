"""An NBD server inside this process, so that QEMU's own client can use a Disk as a drive."""

import os
import socket
import threading
from collections.abc import Callable

from crashsim.disk.latency import NO_LATENCY, Latency
from crashsim.disk.nbd_connection import Connection
from crashsim.disk.nbd_protocol import handshake
from crashsim.disk.server import Disk
from crashsim.errors import CrashsimError, InfrastructureError

_SOCKET_BUFFER_BYTES = 4 << 20


class DiskBusy(InfrastructureError):
    """Requests were still in flight when the disk was to be replaced."""


class NbdServer:
    """Serves one Disk on one socket, with a thread for each connection.

    The requests of all connections go to the disk one batch after the other, so a Disk needs no
    lock of its own against the server.
    """

    def __init__(self, sock: socket.socket, disk: Disk, *, name: str = "") -> None:
        """Serve `disk` on a connected stream socket or on a listening one; `start` begins.

        :param sock: belongs to the server from now on, which closes it.
        :param name: the export's name; clients that give another are refused.
        """
        self._socket = sock
        self._disk = disk
        self._latency = NO_LATENCY
        self._name = name
        self._size_bytes = disk.size_bytes
        self._state = threading.Condition()
        self._serving = False
        self._owing: set[Connection] = set()
        self._replacing = False
        self._stopping = False
        self._failure: BaseException | None = None
        self._connections: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []

    @property
    def failure(self) -> BaseException | None:
        """Why a connection ended against the rules: the recording is full, the client is mad.

        The client only sees its connection close, so ask here when a guest has trouble.
        """
        return self._failure

    def start(self) -> None:
        """Begin to serve, in the background."""
        listening = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        if listening:
            self._spawn(self._accept)
        else:
            self._add(self._socket)

    def replace(
        self, disk: Disk, latency: Latency = NO_LATENCY, timeout_seconds: float = 60.0
    ) -> None:
        """Serve another disk of the same size from the next request on, as fast as `latency` says.

        Waits until no request is in flight; raises DiskBusy if that takes too long.
        """
        if disk.size_bytes != self._size_bytes:
            raise ValueError(
                f"a disk of {disk.size_bytes} bytes cannot replace one of another size"
            )
        with self._state:
            self._replacing = True
            try:
                if not self._state.wait_for(
                    lambda: not (self._serving or self._owing), timeout_seconds
                ):
                    raise DiskBusy(f"requests were in flight for {timeout_seconds:.0f} s")
                self._disk = disk
                self._latency = latency
            finally:
                self._replacing = False
                self._state.notify_all()

    def stop(self) -> None:
        """Close every connection and wait for the threads. Idempotent."""
        with self._state:
            self._stopping = True
            sockets = [self._socket, *self._connections]
            self._state.notify_all()
        for each in sockets:
            _shut_down(each)
        for thread in self._threads:
            thread.join()
        self._socket.close()

    def _spawn(self, target: Callable[..., None], *arguments: socket.socket) -> None:
        thread = threading.Thread(target=target, args=arguments, name="nbd", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                # The only way to end accept(2) from another thread: stop() shut the socket down.
                if self._stopping:
                    return
                raise
            self._threads = [thread for thread in self._threads if thread.is_alive()]
            self._add(connection)

    def _add(self, connection: socket.socket) -> None:
        connection.setblocking(True)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BUFFER_BYTES)
        with self._state:
            self._connections.add(connection)
        self._spawn(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        try:
            if handshake(connection, self._size_bytes, self._name):
                transmission = Connection(connection, self._size_bytes)
                try:
                    self._transmit(transmission)
                finally:
                    self._note_owing(transmission, False)
        except (EOFError, ConnectionError):
            return  # The client has gone, perhaps killed: nothing that the server did wrong.
        except BaseException as error:
            self._note_failure(error)
            if not isinstance(error, CrashsimError):
                raise
        finally:
            with self._state:
                self._connections.discard(connection)
            _shut_down(connection)
            connection.close()

    def _transmit(self, connection: Connection) -> None:
        while connection.wait():
            with self._state:
                self._state.wait_for(lambda: self._stopping or self._may_serve(connection))
                if self._stopping:
                    return
                self._serving = True
            try:
                connection.serve(self._disk, self._latency)
            finally:
                with self._state:
                    self._serving = False
                    self._note_owing(connection, connection.owes_replies)

    def _may_serve(self, connection: Connection) -> bool:
        """What a connection owes it may still send: `replace` waits for that."""
        return not self._serving and (connection in self._owing or not self._replacing)

    def _note_owing(self, connection: Connection, owes_replies: bool) -> None:
        with self._state:
            if owes_replies:
                self._owing.add(connection)
            else:
                self._owing.discard(connection)
            self._state.notify_all()

    def _note_failure(self, error: BaseException) -> None:
        with self._state:
            if self._failure is None:
                self._failure = error


def socket_pair() -> tuple[socket.socket, socket.socket]:
    """A connected pair for NbdServer and a client, with buffers for big requests."""
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BUFFER_BYTES)
    return ours, theirs


def listen(path: str) -> socket.socket:
    """A listening unix socket at a path, for clients such as qemu-img and nbdinfo."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    os.chmod(path, 0o600)
    listener.listen()
    return listener


def _shut_down(sock: socket.socket) -> None:
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        # Not connected any more, or closed by its own thread: what was wanted.
        return
