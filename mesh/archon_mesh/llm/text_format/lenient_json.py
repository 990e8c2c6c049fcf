# ruff: noqa: RUF001 - models write these characters
"""Reads JSON as models write it: other quotes, missing and extra commas, comments, Python literals, missing braces.

Nothing is made up: a text that is cut off in a string, a number, or after a comma or a key is an error. The reader
passes over the text once; its depth is bounded.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, Never

MAX_DEPTH: Final = 64
"""Objects and arrays within each other; deeper ones are an error."""

_SKIPPED = re.compile(r"(?:\s+|//[^\n]*|#[^\n]*|/\*.*?\*/)*", re.S)
_QUOTES: Final = {'"': '"', "'": "'", "`": "`", "“": '”“"', "„": "”“", "‘": "’‘'", "’": "’"}
_STOPS: Final = {quote: (re.compile(f"[\\\\{re.escape(closing)}]"), closing) for quote, closing in _QUOTES.items()}
_AFTER_KEY = re.compile(r"\s*(?::|=)")
_AFTER_VALUE = re.compile(r"""\s*(?:[,}\])]|$|//|\#|/\*|["'“‘`]?[\w-]{1,40}["'”’`]?\s{0,9}[:=])""")
_ASSIGN = re.compile(r"=>|:|=")
_NUMBER = re.compile(r"[+-]?(?:\d[\d_]*(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?![\w.])")
_WORD = re.compile(r"[A-Za-z_][\w.-]*")
_HEX = re.compile(r"[0-9a-fA-F]{4}")
_LITERALS: Final = {"true": True, "false": False, "null": None, "none": None, "undefined": None}
_NO_VALUES: Final = ("nan", "infinity", "inf")
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "_": "_"}
_SELF_ESCAPED: Final = "\"'`\\/“”‘’"
_CLOSERS: Final = {"{": "}", "[": "]", "(": ")"}


class NotJson(Exception):
    """The text is no JSON, not even leniently; `position` is where that shows. `cut` if the text ends too early."""

    def __init__(self, position: int, *, cut: bool = False) -> None:
        super().__init__(f"no JSON at character {position}")
        self.position = position
        self.cut = cut


class LenientReader:
    """Reads one value from `text` at `position`, which is then behind it.

    `finished` says that the text is known to end where its writer wanted it to, so that a number at its end is whole.
    `unclosed` are the objects and arrays of the value that the text does not close.
    """

    def __init__(self, text: str, position: int = 0, *, finished: bool = False) -> None:
        self.text = text
        self.position = position
        self.unclosed: list[object] = []
        self._finished = finished

    def read(self) -> Any:
        """Returns the value. Raises NotJson."""
        self._skip()
        try:
            value, self.position = _STRICT.raw_decode(self.text, self.position)
        except (ValueError, RecursionError):
            return self._value(0)
        return value

    def is_unclosed(self, value: object) -> bool:
        """Whether the text ends within the value."""
        return any(value is each for each in self.unclosed)

    def _value(self, depth: int) -> Any:
        self._skip()
        char = self._char()
        if char in _CLOSERS and char:
            return self._container(char, depth + 1)
        if char in _QUOTES and char:
            return self._string(is_key=False)
        if match := _NUMBER.match(self.text, self.position):
            return self._number(match)
        if match := _WORD.match(self.text, self.position):
            return self._word(match)
        raise NotJson(self.position)

    def _container(self, opening: str, depth: int) -> Any:
        if depth > MAX_DEPTH:
            self._fail()
        self.position += 1
        members: dict[str, Any] = {}
        elements: list[Any] = []
        container: object = members if opening == "{" else elements
        while True:
            commas = self._skip_commas()
            char = self._char()
            if not char:
                # After a comma or the first bracket, more was to come.
                if commas or not container:
                    self._fail(cut=True)
                self.unclosed.append(container)
                return container
            if char in "}])":
                # The bracket of an outer container closes this one too.
                self.position += char == _CLOSERS[opening]
                return container
            if opening == "{":
                key = self._key()
                members[key] = self._value(depth)
            else:
                elements.append(self._value(depth))

    def _key(self) -> str:
        if self._char() in _QUOTES:
            key = self._string(is_key=True)
        elif match := _WORD.match(self.text, self.position):
            key, self.position = match[0], match.end()
        else:
            self._fail()
        self._skip()
        if not (match := _ASSIGN.match(self.text, self.position)):
            self._fail()
        self.position = match.end()
        return key

    def _string(self, *, is_key: bool) -> str:
        text, start = self.text, self.position
        quote = text[start]
        triple = quote * 3
        if text.startswith(triple, start) and quote in "\"'":
            end = text.find(triple, start + 3)
            if end < 0:
                self._fail(cut=True)
            self.position = end + 3
            return text[start + 3 : end]
        stop, closing = _STOPS[quote]
        after = _AFTER_KEY if is_key else _AFTER_VALUE
        pieces: list[str] = []
        begin = position = start + 1
        while match := stop.search(text, position):
            if match[0] == "\\":
                piece, next_position = self._escape(match.start())
                pieces += [text[begin : match.start()], piece]
                begin = position = next_position
            elif match[0] in closing and after.match(text, match.end()):
                pieces.append(text[begin : match.start()])
                self.position = match.end()
                return "".join(pieces)
            else:
                # A quote within the text that was not escaped.
                position = match.end()
        self.position = len(text)
        raise NotJson(self.position, cut=True)

    def _escape(self, position: int) -> tuple[str, int]:
        """Returns the character of an escape, and the position behind it."""
        text = self.text
        char = text[position + 1 : position + 2]
        if char == "u" and (high := _HEX.match(text, position + 2)):
            code, end = int(high[0], 16), high.end()
            low = _HEX.match(text, end + 2) if text.startswith("\\u", end) else None
            if 0xD800 <= code < 0xDC00 and low and 0xDC00 <= int(low[0], 16) < 0xE000:
                return chr(0x10000 + ((code - 0xD800) << 10) + int(low[0], 16) - 0xDC00), low.end()
            return chr(code), end
        if char and char in _SELF_ESCAPED:
            return char, position + 2
        # Text that is no escape, such as \d, stays as it is.
        return _ESCAPES.get(char, "\\" + char), position + 2

    def _number(self, match: re.Match[str]) -> int | float:
        self._end_of_word(match)
        digits = match[0].replace("_", "")
        try:
            return float(digits) if any(char in digits for char in ".eE") else int(digits)
        except ValueError:
            self._fail()

    def _word(self, match: re.Match[str]) -> Any:
        word = match[0].lower()
        if word in _NO_VALUES:
            self._fail()
        self._end_of_word(match)
        if word in _LITERALS:
            return _LITERALS[word]
        self._skip()
        if self._char() not in ("", ",", "}", "]"):
            self._fail()
        return match[0]

    def _end_of_word(self, match: re.Match[str]) -> None:
        if match.end() == len(self.text) and not self._finished:
            self._fail(cut=True)
        self.position = match.end()

    def _skip(self) -> None:
        match = _SKIPPED.match(self.text, self.position)
        assert match is not None
        self.position = match.end()

    def _skip_commas(self) -> bool:
        """Skips space, comments and commas. Returns whether there was a comma."""
        commas = False
        self._skip()
        while self._char() == ",":
            commas = True
            self.position += 1
            self._skip()
        return commas

    def _char(self) -> str:
        return self.text[self.position : self.position + 1]

    def _fail(self, *, cut: bool = False) -> Never:
        raise NotJson(self.position, cut=cut)


def _no_constant(name: str) -> Never:
    raise ValueError(name)


_STRICT = json.JSONDecoder(strict=False, parse_constant=_no_constant)
