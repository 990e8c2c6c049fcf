"""Cuts a text, and says so in it."""

from __future__ import annotations


def shortened(text: str, limit: int) -> str:
    """Returns the first `limit` characters of a text, with a note of how many are left out; a shorter text as it is."""
    return text if len(text) <= limit else f"{text[:limit]} ... [{len(text) - limit:,} characters left out]"
