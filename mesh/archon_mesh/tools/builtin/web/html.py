"""The text of an HTML page, with the standard library's parser."""

from __future__ import annotations

import codecs
import re
import time
from html.parser import HTMLParser
from typing import Final

from typing_extensions import override

_SLICE: Final = 8 * 1024
_MAX_PENDING: Final = 32 * 1024
"""Characters that the parser gets at once; and that it may hold back for a tag that does not end. Its time grows with
the square of the latter."""

PARSE_SECONDS: Final = 5.0
"""How long a page is parsed."""

MAX_TITLE: Final = 300

_HIDDEN: Final = {"script", "style", "noscript", "template", "svg", "math", "iframe", "object", "select", "textarea"}
_INLINE: Final = frozenset(
    re.findall(
        r"\w+",
        "a abbr acronym b bdi bdo big cite code data del dfn em font i img ins kbd label mark q s samp small span "
        "strike strong sub sup time tt u var wbr",
    )
)
_CELLS: Final = {"td", "th"}
_META_CHARSET: Final = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?([\w-]{1,40})""", re.IGNORECASE)
_UNSAFE_CODECS: Final = {"idna", "punycode", "unicode_escape", "raw_unicode_escape", "unicode-escape", "utf-7"}
"""Not used on the web, and slow on hostile input."""


def decoded(body: bytes, charset: str) -> str:
    """Returns a body as text, by the charset of the response or of the page, else as UTF-8."""
    if not charset and (match := _META_CHARSET.search(body[:2048])):
        charset = match[1].decode()
    try:
        codec = codecs.lookup(charset or "utf-8").name
        if codec in _UNSAFE_CODECS:
            codec = "utf-8"
        return body.decode(codec, "replace").removeprefix("\ufeff")
    except (LookupError, UnicodeError):
        return body.decode(errors="replace")


def text_of(html: str, enough: int) -> tuple[str, str, bool]:
    """Returns the title and the text of a page, blocks on lines of their own, without scripts and styles; and whether
    the text is cut, after `enough` characters or PARSE_SECONDS."""
    parser = _TextParser()
    end = time.monotonic() + PARSE_SECONDS
    is_cut = False
    for start in range(0, len(html), _SLICE):
        parser.feed(html[start : start + _SLICE])
        if len(parser.rawdata) > _MAX_PENDING:
            parser.rawdata = ""  # a tag that does not end
        if parser.characters > 2 * enough or time.monotonic() > end:
            is_cut = start + _SLICE < len(html)
            break
    parser.feed("<br>")  # ends text that waits for a tag; `close` is slow for tags that do not end
    lines = (re.sub(r"[^\S\n]+", " ", line).strip() for line in "".join(parser.parts).split("\n"))
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
    return " ".join("".join(parser.title).split())[:MAX_TITLE], text[:enough], is_cut or len(text) > enough


class _TextParser(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.title: list[str] = []
        self.parts: list[str] = []
        self.characters = 0
        self._hidden: list[str] = []
        self._is_title = False

    @override
    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag in _HIDDEN:
            if len(self._hidden) < 100:
                self._hidden.append(tag)
        elif tag == "title" and not self._hidden and not self.title:
            self._is_title = True
        elif tag in _CELLS:
            self.parts.append(" ")
        elif tag not in _INLINE:
            self.parts.append("\n")

    @override
    def handle_startendtag(self, tag: str, attrs: object) -> None:
        if tag not in _HIDDEN:
            self.handle_starttag(tag, attrs)

    @override
    def handle_endtag(self, tag: str) -> None:
        self._is_title = False
        if tag in self._hidden:
            while self._hidden.pop() != tag:
                pass
        elif tag in _CELLS:
            self.parts.append(" ")
        elif tag not in _INLINE:
            self.parts.append("\n")

    @override
    def handle_data(self, data: str) -> None:
        if self._is_title:
            self.title.append(data)
        elif not self._hidden:
            self.parts.append(data.replace("\n", " "))
            self.characters += len(data.strip())
