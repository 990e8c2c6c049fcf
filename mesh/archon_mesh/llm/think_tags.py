"""Thinking that a server leaves in the text of a reply, in tags at its beginning such as <think>: servers without a
parser for the model's format do."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_TAGS: Final = (("<think>", "</think>"), ("<thinking>", "</thinking>"), ("[THINK]", "[/THINK]"))
_LONGEST: Final = max(len(opening) for opening, _ in _TAGS)
_LATE_END = re.compile(r"\A(?:(?!<think>).){0,200000}?</think>[ \t]*\n\s*", re.S)
"""A text about the tag has it within a line."""


class Split(NamedTuple):
    """A piece of a text, as thinking and as answer."""

    thinking: str
    answer: str


class ThinkTags:
    """Splits the text of one reply, piece by piece."""

    def __init__(self) -> None:
        self._held = ""
        self._closing: str | None = ""  # empty: the beginning has not been seen; None: no more thinking follows
        self._strips = False

    def feed(self, piece: str) -> Split:
        """Takes the next piece. Text that may be a part of a tag is held back."""
        if self._closing is None:
            return Split("", self._answer(piece))
        self._held += piece
        if self._closing:
            return self._think(self._closing)
        beginning = self._held.lstrip()
        for opening, closing in _TAGS:
            if beginning.startswith(opening):
                self._held, self._closing = beginning.removeprefix(opening), closing
                return self._think(closing)
        if len(beginning) < _LONGEST and any(opening.startswith(beginning) for opening, _ in _TAGS):
            return Split("", "")
        return Split("", self._rest())

    def end(self) -> Split:
        """Ends the text. Returns the text that was held back; a tag that never ends leaves thinking alone."""
        if self._closing:
            thinking, self._held = self._held, ""
            return Split(thinking, "")
        return Split("", self._rest())

    def _think(self, closing: str) -> Split:
        thinking, tag, rest = self._held.partition(closing)
        if tag:
            self._held, self._strips = rest, True
            return Split(thinking, self._answer(self._rest()))
        kept = next((size for size in range(len(closing) - 1, 0, -1) if self._held.endswith(closing[:size])), 0)
        cut = len(self._held) - kept
        thinking, self._held = self._held[:cut], self._held[cut:]
        return Split(thinking, "")

    def _rest(self) -> str:
        rest, self._held, self._closing = self._held, "", None
        return rest

    def _answer(self, piece: str) -> str:
        if self._strips:
            piece = piece.lstrip()
            self._strips = not piece
        return piece


def without_thinking(text: str) -> str:
    """Returns a whole text without thinking whose opening tag is missing: chat templates write it into the prompt."""
    return _LATE_END.sub("", text, count=1)
