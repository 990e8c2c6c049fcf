"""The threads of this process that keep logins fresh."""

from __future__ import annotations

from typing import Final, Protocol


class Closable(Protocol):
    """Something that ends."""

    def close(self) -> None:
        """Ends it."""
        ...


running: Final[dict[str, Closable]] = {}
"""By the name of the context."""


def close_logins() -> None:
    """Ends the threads."""
    while running:
        running.popitem()[1].close()
