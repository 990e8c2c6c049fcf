"""The text of a reply, which servers cut anywhere, also within a character or a tag of thinking."""

from __future__ import annotations

from archon.surrogates import without_surrogates
from archon_mesh.llm.think_tags import Split, ThinkTags


class ReplyText:
    """Splits the text of one reply into thinking and answer, piece by piece."""

    def __init__(self) -> None:
        self._tags = ThinkTags()
        self._half = ""

    def feed(self, piece: str) -> Split:
        """Takes the next piece. Text that may be a part of a tag, or half of a character, is held back."""
        text, self._half = self._half + piece, ""
        if "\ud800" <= text[-1:] <= "\udbff":
            text, self._half = text[:-1], text[-1]
        return self._tags.feed(without_surrogates(text)) if text else Split("", "")

    def end(self) -> Split:
        """Ends the text. Returns the text that was held back."""
        half, self._half = self._half, ""
        feeding, ending = self._tags.feed(without_surrogates(half)), self._tags.end()
        return Split(feeding.thinking + ending.thinking, feeding.answer + ending.answer)
