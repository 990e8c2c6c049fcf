"""Reads the body of a request before a room gets it: within a time, a size, and the bytes that all may hold."""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.types import Message, Receive

from archon.errors import ArchonError, DeadlineExceeded, MessageTooLarge, OperationCancelled, Unavailable
from archon.wire import MAX_CHECKED_BYTES
from archon_services.common.byte_budget import ByteBudget

MAX_BODY: Final = MAX_CHECKED_BYTES + 64 * 1024
"""Bytes of a body: a message of the mesh and its envelope."""

MAX_DISCARDED: Final = 64 * 1024 * 1024
"""Bytes of a body above the limit that are read and dropped: a client that still sends would not see the answer."""

MAX_HELD: Final = 64 * 1024 * 1024
"""Bytes of bodies that requests hold together."""


class HeldBody:
    """The body of one request: its bytes count in `budget` until `release`."""

    def __init__(self, budget: ByteBudget, seconds: float) -> None:
        self._budget, self._seconds = budget, seconds
        self._held = self._discarded = 0
        self._pieces: list[bytes] = []
        self.complete = False
        """Whether all of it was read."""

    async def read(self, receive: Receive) -> None:
        """Reads all of it. Raises DeadlineExceeded, MessageTooLarge, OperationCancelled if the client goes away, and
        Unavailable if other requests hold too many bytes."""
        refused: ArchonError | None = None
        try:
            async with asyncio.timeout(self._seconds):
                while not self.complete and self._discarded <= MAX_DISCARDED:
                    message = await receive()
                    if message["type"] != "http.request":
                        raise OperationCancelled("the client has closed the connection")
                    if refused is None:
                        try:
                            self._add(message.get("body", b""))
                        except (MessageTooLarge, Unavailable) as error:
                            refused = error
                            self.release()
                    else:
                        self._discarded += len(message.get("body", b""))
                    self.complete = not message.get("more_body", False)
        except TimeoutError:
            if refused is None:
                raise DeadlineExceeded(f"the body of the request did not arrive within {self._seconds:g} s") from None
        if refused is not None:
            raise refused

    def _add(self, piece: bytes) -> None:
        if self._held + len(piece) > MAX_BODY:
            raise MessageTooLarge(f"the body of the request has more than {MAX_BODY:,} bytes")
        if not self._budget.fits(len(piece)):
            raise Unavailable("the HTTP gateway holds too many bytes of other requests", retry_delay=1.0)
        self._budget.take(len(piece))
        self._held += len(piece)
        self._pieces.append(piece)

    def replay(self, receive: Receive) -> Receive:
        """Returns a source that has the body first, and then further messages of the client."""
        body: list[bytes] | None = self._pieces

        async def replayed() -> Message:
            nonlocal body
            if body is None:
                return await receive()
            content, body = b"".join(body), None
            self._pieces.clear()
            return {"type": "http.request", "body": content, "more_body": False}

        return replayed

    def release(self) -> None:
        """Drops the body, and gives its bytes back to the budget. Idempotent."""
        self._budget.give(self._held)
        self._held = 0
        self._pieces.clear()
