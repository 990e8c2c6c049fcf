"""Markdown as plain text, for lists that show the beginning of a text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from markdown_it.token import Token

MAX_PARSED: Final = 4_000
"""Characters of a text that are read."""

_MARKS: Final = re.compile(r"[*_`#\[\]<>|~\\&=+-]|^\s*\d+[.)]", re.MULTILINE)
"""A text without any of these is no Markdown."""

_BREAKS: Final = re.compile(r"\s*\n\s*")
_OWN_TEXT: Final = frozenset({"text", "code_inline", "html_inline", "html_block", "fence", "code_block", "image"})


def plain_text(markdown: str) -> str:
    """Returns the text of Markdown without its marks, a line for each block; items of lists keep `-` or their number.
    HTML stays as it is: nothing that a person should read is hidden. Text beyond 4,000 characters is left out."""
    if not _MARKS.search(markdown):
        return markdown
    from rich.markdown import Markdown

    text = "".join(_texts(Markdown(markdown[:MAX_PARSED]).parsed)).strip()
    return _BREAKS.sub("\n", text) or markdown[:MAX_PARSED]


def _texts(tokens: Sequence[Token]) -> Iterator[str]:
    """Yields the texts of tokens, and the breaks between them."""
    for token in tokens:
        if token.type == "inline":
            yield from _texts(token.children or ())
        elif token.type in _OWN_TEXT:
            yield token.content
        elif token.type in ("softbreak", "hardbreak"):
            yield "\n"
        elif token.type == "list_item_open":
            yield f"{token.info}. " if token.info else "- "
        elif token.type in ("td_close", "th_close"):
            yield " "
        elif token.block and token.nesting == -1:
            yield "\n"
