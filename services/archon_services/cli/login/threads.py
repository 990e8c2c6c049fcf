"""The threads of this process that keep logins fresh."""

from __future__ import annotations

from typing import Final, Protocol


class Closable(Protocol):
    """Something that ends."""

    def close(self) -> None:
        """Ends the thread and waits for it."""
        ...


running: Final[dict[str, Closable]] = {}
"""By the name of the context."""


def close_logins() -> None:
    """Ends the threads of all contexts."""
    while running:
        running.popitem()[1].close()
