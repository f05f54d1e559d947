"""What a server of block devices asks of the thing that it serves."""

from typing import Protocol

from crashsim.disk.request import Request


class Disk(Protocol):
    """What the NBD server serves. Its methods are called by one thread at a time.

    The server calls `arrived` for each request as soon as the whole request has arrived, then, in
    order of arrival, `perform` and `replied` for one request after the other. Before `replied` it
    has called `arrived` for everything that had come in by then, so a FLUSH that the guest sent
    before it was told of a write's end comes before that write's completion. `replied` is called
    just BEFORE the reply is sent: a mark made by a guest that has seen the reply therefore always
    comes later in the log than the completion.
    """

    size_bytes: int

    def arrived(self, request: Request) -> int:
        """Note a request's arrival; returns a ticket for `replied`."""

    def perform(self, request: Request) -> bytes:
        """Do it; the data of a READ, else empty. Raises OSError to make the request fail."""

    def replied(self, ticket: int, error: int) -> None:
        """Note that the reply is about to be sent; `error` is 0 or an errno."""
