"""Thinking that a server of the chat completions API wants back with the tool calls of its reply.

DeepSeek has `reasoning_content`, Groq and vLLM `reasoning`, OpenRouter `reasoning_details` (blocks, some of them
signed or encrypted), Gemini `extra_content` with each call (thought signatures).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import Any, Final

from archon.surrogates import without_surrogates
from archon_mesh.core.messages import PROVIDER_STATE, ChatMessage
from archon_mesh.llm.servers import ServerProfile

TEXTS: Final = ("reasoning_content", "reasoning")
DETAILS: Final = "reasoning_details"
EXTRA: Final = "extra_content"

SERVER: Final = "server"
"""The key of the state with the family of servers that it came from: no other gets it."""

UNSIGNED: Final = {"google": {"thought_signature": "skip_thought_signature_validator"}}
"""Stands in for the signature of a call that another model made; without one, Gemini 3 refuses the request
(https://ai.google.dev/gemini-api/docs/thought-signatures)."""

_PIECES: Final = ("text", "summary", "data")


class KeptThinking:
    """The kept thinking of one reply: `add` takes its messages, or the deltas of a stream."""

    def __init__(self) -> None:
        self._texts: dict[str, list[str]] = {}
        self._details: list[dict[str, Any]] = []
        self._is_open = False

    def add(self, delta: Mapping[str, Any]) -> str:
        """Takes a delta. Returns its thinking as text, for those who watch."""
        shown = ""
        for name in TEXTS:
            if isinstance(text := delta.get(name), str) and text:
                self._texts.setdefault(name, []).append(text)
                shown = shown or text
        details = delta.get(DETAILS)
        for detail in details if isinstance(details, list) else ():
            if isinstance(detail, Mapping):
                self._add_detail(dict(detail))
        return without_surrogates(shown)

    def _add_detail(self, detail: dict[str, Any]) -> None:
        """Adds a block, or a piece of one to the block before it: pieces have its type and index."""
        last = self._details[-1] if self._details else None
        if last is None or any(last.get(key) != detail.get(key) for key in ("type", "index")):
            self._details.append(detail)
            return
        for key, value in detail.items():
            if key in _PIECES and isinstance(value, str) and isinstance(last.get(key), str):
                last[key] += value
            elif value is not None:
                last[key] = value

    @property
    def text(self) -> str:
        """The thinking so far, in the first field that has any."""
        return without_surrogates("".join(next(iter(self._texts.values()), [])))

    def state(self, extra: list[object]) -> dict[str, Any] | None:
        """Returns the fields that go back with the calls, whose `extra_content` are given; None if there is nothing."""
        state: dict[str, Any] = {name: without_surrogates("".join(texts)) for name, texts in self._texts.items()}
        if self._details:
            state[DETAILS] = self._details
        if any(extra):
            state[EXTRA] = extra
        return state or None


def thinking_to_wire(message: ChatMessage, wire: dict[str, Any], profile: ServerProfile, fields: Set[str]) -> None:
    """Adds to a message with tool calls the data of these fields that a server of this family has given with them."""
    state = message.metadata.get(PROVIDER_STATE)
    state = state if isinstance(state, Mapping) and state.get(SERVER, profile.family) == profile.family else {}
    for name in (*TEXTS, DETAILS):
        if name in fields and name in state:
            wire[name] = state[name]
    if profile.needs_reasoning:
        for name in fields:
            wire.setdefault(name, "")
    if EXTRA in fields:
        for call, extra in zip(wire["tool_calls"], _extra(state, len(wire["tool_calls"])), strict=True):
            if extra:
                call[EXTRA] = extra


def _extra(state: Mapping[str, Any], calls: int) -> Iterator[object]:
    given = state.get(EXTRA)
    if isinstance(given, list) and len(given) == calls:
        yield from given
    else:
        yield UNSIGNED
        yield from [None] * (calls - 1)
