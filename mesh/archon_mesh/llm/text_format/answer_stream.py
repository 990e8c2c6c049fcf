"""Finds the final answer in a stream while it comes, so that a reader sees the answer and none of the markers."""

from __future__ import annotations

from typing import Final

from archon_mesh.llm.text_format.sections import Kind, marker_of

_LONGEST_MARKER: Final = 80
"""Characters after which the beginning of a line is no marker."""

_HELD: Final = 24
"""Characters at the end of the text so far in which a token or emphasis outside of the answer may begin."""


class AnswerStream:
    """Takes a reply in pieces, and returns the text of its final answer as soon as it is known to belong to it.

    It holds back the space and the beginnings of tokens at the end; the parser of the whole reply has the last word.
    Replies that begin with thinking or have a code block before the answer are left to the parser.
    """

    def __init__(self) -> None:
        self._emitted: list[str] = []
        self._line = ""
        """The beginning of a line that may still be a marker."""

        self._pending = ""
        self._is_decided = self._in_answer = self._in_fence = self._is_over = False

    @property
    def emitted(self) -> str:
        """All that was returned so far."""
        return "".join(self._emitted)

    def feed(self, delta: str) -> str:
        """Returns the next piece of the answer, or an empty text."""
        *lines, last = delta.split("\n")
        for line in lines:
            self._add(line + "\n")
        self._add(last)
        return self._released()

    def _add(self, piece: str) -> None:
        """Takes a piece of the current line; a piece that ends with a newline is its last one."""
        if self._is_over or not piece:
            return
        ends = piece.endswith("\n")
        if self._is_decided:
            self._pending += piece if self._in_answer else ""
        else:
            self._line += piece
            if ends or len(self._line) > _LONGEST_MARKER or self._begins_answer():
                self._decide()
        self._is_decided = self._is_decided and not ends

    def _begins_answer(self) -> bool:
        marker = marker_of(self._line) if not self._in_answer else None
        # The emphasis of a marker may end behind its colon.
        return marker is not None and marker[0] is Kind.ANSWER and bool(marker[2].strip(" *_`"))

    def _decide(self) -> None:
        line, self._line, self._is_decided = self._line, "", True
        marker = None if self._in_fence else marker_of(line)
        if line.lstrip().startswith(("```", "~~~", "<think")):
            # Whether a block before the answer is an example, only the parser of the whole reply knows.
            self._in_fence, self._is_over = not self._in_fence, not self._in_answer
        if self._in_answer:
            self._is_over = marker is not None
            self._pending += "" if self._is_over else line
        elif marker is not None and marker[0] is Kind.ANSWER:
            self._in_answer = True
            self._pending = marker[2]

    def _released(self) -> str:
        text = self._pending if self._emitted else self._pending.lstrip()
        held = next((at for at in range(max(0, len(text) - _HELD), len(text)) if text[at] in "<*`~"), len(text))
        piece = text[:held].rstrip()
        self._pending = text[len(piece) :]
        if piece:
            self._emitted.append(piece)
        return piece
