"""Reads lists that services return page by page."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, Final, TypeVar

T = TypeVar("T")

LARGEST: Final = 1000
"""The most items of a page."""


async def pages(call: Callable[..., Awaitable[Any]], request: Any, *, timeout: float) -> AsyncGenerator[Any, None]:
    """Yields the responses of a call for a list, from `request.page_token` on, which it moves. `timeout` is of each
    call, in seconds. Raises the errors of the call."""
    while True:
        page = await call(request, timeout=timeout)
        yield page
        request.page_token = page.next_page_token
        if not request.page_token:
            return


async def listed(
    call: Callable[..., Awaitable[Any]],
    request: Any,
    field: str,
    read: Callable[[Any], T],
    *,
    timeout: float,
    limit: int | None = None,
) -> list[T]:
    """Returns the items in `field` of all pages, each as `read` makes it. With a `limit` it sets the size of the pages,
    and reads no further one once it has that many items. Raises the errors of the call."""
    items: list[T] = []
    while limit is None or len(items) < limit:
        if limit is not None:
            request.page_size = min(LARGEST, limit - len(items))
        page = await call(request, timeout=timeout)
        items += map(read, getattr(page, field))
        request.page_token = page.next_page_token
        if not request.page_token:
            break
    return items
