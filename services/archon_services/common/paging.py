"""Pagination of lists: page sizes, and opaque page tokens that are bound to a list and its filters."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from typing import Any, Final

from archon.errors import FieldViolation, InvalidArgument

DEFAULT_PAGE = 100
MAX_PAGE = 1000

MAX_NUMBER: Final = 2**63 - 1
MAX_TEXT: Final = 4096
"""A position that a store takes: its integers have 64 bits."""


def page_size(requested: int) -> int:
    """Returns the number of entries per page, the default for 0. Raises InvalidArgument unless 0 to 1,000."""
    if not 0 <= requested <= MAX_PAGE:
        raise InvalidArgument(
            f"page_size is {requested}, must be 0 to {MAX_PAGE}",
            field_violations=[FieldViolation("page_size", f"must be 0 to {MAX_PAGE}")],
        )
    return requested or DEFAULT_PAGE


def make_token(position: Any, *filters: object) -> str:
    """Encodes the position at which the next page begins."""
    packed = json.dumps([_hash(filters), position]).encode()
    return base64.urlsafe_b64encode(packed).decode()


def read_token(token: str, *filters: object, like: Any) -> Any:
    """Decodes the position, None for the first page. Raises InvalidArgument (INVALID_PAGE_TOKEN) if the token is
    malformed, belongs to another list or filter, or has a position of other types than the example `like`: a caller
    can make a token."""
    if not token:
        return None
    try:
        filter_hash, position = json.loads(base64.urlsafe_b64decode(token.encode()))
    except (ValueError, TypeError, RecursionError, binascii.Error):
        filter_hash, position = "", None
    if filter_hash != _hash(filters) or not _resembles(position, like):
        raise invalid_token()
    return position


def _resembles(position: Any, like: Any) -> bool:
    if isinstance(like, list):
        same_length = isinstance(position, list) and len(position) == len(like)
        return same_length and all(map(_resembles, position, like))
    if isinstance(like, str):
        return isinstance(position, str) and len(position) <= MAX_TEXT and _is_storable(position)
    number = isinstance(position, (int, float) if isinstance(like, float) else int) and not isinstance(position, bool)
    return number and abs(position) <= MAX_NUMBER  # false for NaN


def _is_storable(text: str) -> bool:
    """Whether every store takes the text: JSON may hold a lone surrogate, and PostgreSQL takes no NUL."""
    return "\0" not in text and not any("\ud800" <= char <= "\udfff" for char in text)


def invalid_token() -> InvalidArgument:
    """Returns the error for a token that does not belong to the list and filters of the request."""
    return InvalidArgument("page_token does not belong to this list and filter", reason="INVALID_PAGE_TOKEN")


def _hash(filters: tuple[object, ...]) -> str:
    return hashlib.sha256(repr(filters).encode()).hexdigest()[:16]
