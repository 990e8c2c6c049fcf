"""What a call of a real small model ends with: an answer, or a failure with a kind. Anything else is a bug."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Final

from archon.errors import ArchonError

PATIENCE: Final = 240.0
"""Seconds. Nothing may hang."""


async def outcome(work: Awaitable[str]) -> str | ArchonError:
    """Returns the answer or the failure. Raises what is no error of Archon's, and AssertionError for an empty answer or a
    failure without a kind."""
    try:
        async with asyncio.timeout(PATIENCE):
            answer = await work
    except ArchonError as error:
        _check(bool(error.kind), error)
        return error
    _check(bool(answer), answer)
    return answer


def _check(holds: bool, found: object) -> None:
    assert holds, found
