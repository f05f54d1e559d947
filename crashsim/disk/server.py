"""Placeholder for the interface; the disk helper writes the real NBD server here."""

from typing import Protocol

from crashsim.disk.request import Request


class Disk(Protocol):
    """What the NBD server serves. One request batch = everything that had arrived together.

    The server calls, for each batch: `arrived` for every request in order, then `perform` for each,
    then `replied` for each just BEFORE its reply is sent: a mark made by a guest that has seen the
    reply therefore always comes later in the log than the completion.
    """

    size_bytes: int

    def arrived(self, request: Request) -> int:
        """Note a request's arrival; returns a ticket for `replied`."""

    def perform(self, request: Request) -> bytes:
        """Do it; the data of a READ, else empty. Raises OSError to make the request fail."""

    def replied(self, ticket: int, error: int) -> None:
        """Note that the reply is about to be sent; `error` is 0 or an errno."""
