"""Texts that every wire takes: without lone surrogates, which no UTF-8 has."""

from __future__ import annotations


def without_surrogates(text: str) -> str:
    """Returns the text with a question mark for each lone surrogate, as in the name of a file that is no UTF-8. Two
    surrogates that make a character together, and were cut apart by a stream, become that character."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        return whole.encode("utf-8", "replace").decode()
    return text
