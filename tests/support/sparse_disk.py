"""A Disk in memory that can be copied: crash states by hand."""

from crashsim.disk.request import PAGE_BYTES, Operation, Request

_ZEROES = bytes(PAGE_BYTES)


class SparseDisk:
    """Serves what was written to it; `requests` counts what came."""

    def __init__(self, size_bytes: int, pages: dict[int, bytes] | None = None) -> None:
        self.size_bytes = size_bytes
        self.pages = dict(pages or {})
        self.requests = dict.fromkeys(Operation, 0)

    def copy(self) -> "SparseDisk":
        return SparseDisk(self.size_bytes, self.pages)

    def arrived(self, request: Request) -> int:
        self.requests[request.operation] += 1
        return 0

    def perform(self, request: Request) -> bytes:
        if request.operation is Operation.READ:
            return self._read(request.offset_bytes, request.length_bytes)
        if request.operation is Operation.WRITE:
            self._write(request.offset_bytes, request.data)
        elif request.operation is not Operation.FLUSH:
            self._write(request.offset_bytes, bytes(request.length_bytes))
        return b""

    def replied(self, ticket: int, error: int) -> None:
        assert error == 0

    def _read(self, offset: int, length: int) -> bytes:
        first, last = offset // PAGE_BYTES, -(-(offset + length) // PAGE_BYTES)
        data = b"".join(self.pages.get(page, _ZEROES) for page in range(first, last))
        start = offset - first * PAGE_BYTES
        return data[start : start + length]

    def _write(self, offset: int, data: bytes) -> None:
        first, last = offset // PAGE_BYTES, -(-(offset + len(data)) // PAGE_BYTES)
        whole = bytearray(self._read(first * PAGE_BYTES, (last - first) * PAGE_BYTES))
        start = offset - first * PAGE_BYTES
        whole[start : start + len(data)] = data
        for page in range(first, last):
            at = (page - first) * PAGE_BYTES
            content = bytes(whole[at : at + PAGE_BYTES])
            if content == _ZEROES:
                self.pages.pop(page, None)
            else:
                self.pages[page] = content
