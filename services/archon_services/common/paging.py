"""Pages of a list. A token is opaque and bound to its filter."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from typing import Any

from archon.errors import FieldViolation, InvalidArgument

DEFAULT_PAGE = 100
MAX_PAGE = 1000


def page_size(asked: int) -> int:
    """Raises InvalidArgument outside 0 to 1,000."""
    if not 0 <= asked <= MAX_PAGE:
        raise InvalidArgument(
            f"page_size is {asked}, must be 0 to {MAX_PAGE}",
            field_violations=[FieldViolation("page_size", f"must be 0 to {MAX_PAGE}")],
        )
    return asked or DEFAULT_PAGE


def make_token(position: Any, *filters: object) -> str:
    """Where the next page begins."""
    packed = json.dumps([_bound(filters), position]).encode()
    return base64.urlsafe_b64encode(packed).decode()


def read_token(token: str, *filters: object) -> Any:
    """The position, or None for the first page. Raises InvalidArgument / INVALID_PAGE_TOKEN."""
    if not token:
        return None
    try:
        bound, position = json.loads(base64.urlsafe_b64decode(token.encode()))
    except (ValueError, TypeError, RecursionError, binascii.Error):
        bound, position = "", None
    if bound != _bound(filters):
        raise InvalidArgument("page_token is no token of this list and filter", reason="INVALID_PAGE_TOKEN")
    return position


def _bound(filters: tuple[object, ...]) -> str:
    return hashlib.sha256(repr(filters).encode()).hexdigest()[:16]
