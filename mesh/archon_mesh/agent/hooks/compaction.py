"""Compaction: keeps a history within the context window of its model."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from typing_extensions import override

from archon.errors import ArchonError, InvalidArgument
from archon_mesh.agent.hooks.context import HookContext
from archon_mesh.agent.hooks.middleware import Middleware, maybe_await
from archon_mesh.agent.hooks.summary_cache import SummaryCache
from archon_mesh.agent.state.running_agent import RunningAgent
from archon_mesh.call_log import log_model_call
from archon_mesh.core.compaction import (
    broken_pairing,
    extract,
    is_summary,
    left_out_labels,
    rounds,
    sliding_window,
    summary,
    summary_text,
    without_tool_results,
)
from archon_mesh.core.facts import with_facts
from archon_mesh.core.messages import ChatMessage
from archon_mesh.core.transcript import transcript
from archon_mesh.llm import deadline
from archon_mesh.llm.base import CALL_TIMEOUT, ModelClient, ModelRequest
from archon_mesh.llm.calibration import calibrated_input

_log = logging.getLogger(__name__)

Strategy = Callable[[Sequence[ChatMessage], int], Any]

OnSummary = Callable[[RunningAgent, str], Awaitable[None]]
"""Receives each new summary with the facts of the messages that it replaces, such as to keep it."""

CUSTOM: Final = "custom"

OLDEST: Final = 10
"""Rounds that are summarised at a time, at least: a model call for each round would cost more than it saves."""

MIN_SUMMARY: Final = 1_000
MAX_SUMMARY: Final = 16_000
"""Bounds of the characters of a summary, which is otherwise at most a quarter of the limit."""

OFFLINE: Final = "offline"
"""The name of the model without a network, which does not summarise."""

MAX_STORED: Final = 2_000
"""Characters of the facts that a summary for `on_summary` may have."""

SUMMARY_PROMPT: Final = (
    "Sum up the conversation so far, for the assistant who will go on with it and sees nothing else of it. Keep every "
    "name, number, date and URL exactly as it was said; what was asked, what was found, what was decided and what is "
    "still open. Leave out courtesies and what was superseded. Answer with the summary alone."
)


class ContextCompactionMiddleware(Middleware):
    """Shortens the history before a model call whose messages and tools exceed `threshold` x `max_context_tokens`, as
    estimated and corrected by earlier calls of the model.

    Strategies: `sliding_window` keeps the last `window_size` rounds; `tool_result_compaction` drops tool results older
    than these; `summarisation` has the model summarise the oldest rounds, about ten at a time and never the last
    `window_size`, into one message that keeps their names, numbers, dates, URLs and instructions; `custom` calls
    `custom_strategy`, a function of (messages, window_size), sync or async, that returns the new messages; in YAML it
    is the function's import path. A function may also be given as `compaction_strategy` itself. If the result is still
    too long, tool results are dropped, then all rounds but the last.

    If the model cannot summarise, or is the offline model, an extract of the rounds takes the summary's place.

    With `auto_compact=False` the history is compacted only by `compact`.
    """

    imported_params = frozenset({"custom_strategy"})

    def __init__(
        self,
        max_context_tokens: int = 200_000,
        auto_compact: bool = True,
        threshold: float = 0.75,
        compaction_strategy: str | Strategy = "sliding_window",
        window_size: int = 2,
        model: ModelClient | None = None,
        custom_strategy: Strategy | None = None,
        timeout: float = CALL_TIMEOUT,
        on_summary: OnSummary | None = None,
    ) -> None:
        """`model` writes the summaries, None for the agent's own model, each within `timeout` seconds. `on_summary`
        receives each of them; an error that it raises is logged.

        Raises InvalidArgument for an unknown strategy or a limit out of range.
        """
        if (compaction_strategy == CUSTOM) != (custom_strategy is not None):
            raise InvalidArgument(f"compaction strategy {CUSTOM!r} and custom_strategy need each other")
        if custom_strategy is not None:
            if not callable(custom_strategy):
                raise InvalidArgument(f"custom_strategy is not a function: {custom_strategy!r}")
            compaction_strategy = custom_strategy
        if not callable(compaction_strategy) and compaction_strategy not in _STRATEGIES:
            raise InvalidArgument(
                f"unknown compaction strategy {compaction_strategy!r}; use {', '.join(_STRATEGIES)}, {CUSTOM}, or a "
                "function"
            )
        if max_context_tokens < 1 or not 0 < threshold <= 1 or window_size < 1:
            raise InvalidArgument(
                "max_context_tokens and window_size must be at least 1, and threshold above 0 and at most 1"
            )
        self.max_context_tokens = max_context_tokens
        self.limit = int(max_context_tokens * threshold)
        self.auto_compact = auto_compact
        self._strategy = compaction_strategy
        self._window = window_size
        self._model = model
        self._timeout = timeout
        self._on_summary = on_summary
        self._summaries = SummaryCache()

    @override
    async def before_model(self, hook: HookContext) -> None:
        # Raises InvalidArgument if a strategy function separates a call from its result.
        params = hook.params
        if not self.auto_compact or params is None:
            return
        model = hook.agent.model
        if (tokens := calibrated_input(model, params.request())) <= self.limit:
            return
        history = hook.state.history
        before = list(history)
        compacted = await self._compacted(before, hook.agent, tokens)
        history.replace_all(compacted)
        params.messages[:] = _replace_history(params.messages, before, list(history))
        _log.info("%s: compacted the history from %d messages to %d", hook.agent.name, len(before), len(compacted))

    async def compact(self, agent: RunningAgent) -> None:
        """Compacts the history of an agent now."""
        agent.history.replace_all(await self._compacted(list(agent.history), agent, 0))

    async def _compacted(self, messages: list[ChatMessage], agent: RunningAgent, tokens: int) -> list[ChatMessage]:
        """`tokens` is the size of the request, 0 to shorten the history as far as the strategy can."""
        model = agent.model
        compacted = await self._apply_strategy(messages, agent, tokens)
        if problem := broken_pairing(compacted):
            raise InvalidArgument(f"the compaction strategy returned an invalid conversation: {problem}")
        for fallback in (without_tool_results, sliding_window):
            if tokens - _tokens(model, messages) + _tokens(model, compacted) <= self.limit:
                break
            compacted = fallback(compacted, 1)
        return compacted

    async def _apply_strategy(self, messages: list[ChatMessage], agent: RunningAgent, tokens: int) -> list[ChatMessage]:
        if callable(self._strategy):
            return list(await maybe_await(self._strategy(messages, self._window)))
        if self._strategy == "summarisation":
            return await self._summarise(messages, agent, tokens)
        return _STRATEGIES[self._strategy](messages, self._window)

    async def _summarise(self, messages: list[ChatMessage], agent: RunningAgent, tokens: int) -> list[ChatMessage]:
        model = agent.model
        known, covered = self._summaries.apply(messages) if tokens else (messages, 0)
        if covered:
            tokens -= _tokens(model, messages) - _tokens(model, known)
            if tokens <= self.limit:
                return known
        all_rounds = rounds(known)
        count = self._rounds_to_summarise(all_rounds, model, tokens)
        old = [message for each in all_rounds[:count] for message in each]
        if not old:
            return known
        recent = [message for each in all_rounds[count:] for message in each]
        text = await self._summary_of(old, self._model or model)
        await self._hand_over(agent, text, old)
        last_query = next((message for message in reversed(old) if message.role == "user"), None)
        has_query = any(message.role == "user" for message in recent)
        kept = [last_query] if last_query is not None and not has_query and not is_summary(last_query) else []
        room = self._summary_room
        plain = [replace(message, content=summary_text(message)) for message in old]
        labels = left_out_labels(message for message in old if message not in kept)
        made = summary(with_facts(text[: room // 2], plain, room // 2), labels)
        self._summaries.put(messages[: len(old) + (covered - 1 if covered else 0)], made)
        return [made, *kept, *recent]

    async def _hand_over(self, agent: RunningAgent, text: str, old: Sequence[ChatMessage]) -> None:
        """Passes a summary with the facts of the messages that it replaces to `on_summary`."""
        if self._on_summary is None:
            return
        new = [message for message in old if not is_summary(message)]
        try:
            await self._on_summary(agent, with_facts(text, new, MAX_STORED))
        except ArchonError as error:
            _log.warning("%s: a summary is not kept: %s", agent.name, error)

    @property
    def _summary_room(self) -> int:
        """The characters that a summary may have with its facts: a quarter of the limit, at four per token."""
        return min(MAX_SUMMARY, max(MIN_SUMMARY, self.limit))

    def _rounds_to_summarise(self, all_rounds: list[list[ChatMessage]], model: ModelClient, tokens: int) -> int:
        """Returns how many of the oldest rounds are summarised: OLDEST, or more if the request is still too long."""
        most = max(0, len(all_rounds) - self._window)
        if not tokens:
            return most
        count = min(OLDEST, most)
        left = tokens + self._summary_room // 4
        left -= sum(_tokens(model, each) for each in all_rounds[:count])
        while count < most and left > self.limit:
            left -= _tokens(model, all_rounds[count])
            count += 1
        return count

    async def _summary_of(self, old: list[ChatMessage], model: ModelClient) -> str:
        if model.model == OFFLINE:
            return extract(old)
        prompt = ChatMessage("user", f"{SUMMARY_PROMPT}\n\n{transcript(old)}")
        try:
            text = (await _text_of(model, ModelRequest((prompt,), timeout=self._timeout))).strip()
        except ArchonError as error:
            _log.warning("the model %s did not summarise, an extract is used: %s", model.model, error)
            text = ""
        return text or extract(old)


_STRATEGIES: dict[str, Callable[[Sequence[ChatMessage], int], list[ChatMessage]]] = {
    "sliding_window": sliding_window,
    "tool_result_compaction": without_tool_results,
    "summarisation": sliding_window,  # unused: _apply_strategy handles it, because it needs a model
}


async def _text_of(model: ModelClient, request: ModelRequest) -> str:
    """Returns the reply of a call that no run's loop makes, and logs it as the loop does."""
    started = time.monotonic()
    try:
        reply = await deadline.generate(model, request)
    except BaseException as error:
        log_model_call(model.model, time.monotonic() - started, error=error)
        raise
    log_model_call(reply.model or model.model, time.monotonic() - started, usage=reply.usage)
    return reply.text


def _tokens(model: ModelClient, messages: Sequence[ChatMessage]) -> int:
    return calibrated_input(model, ModelRequest(messages))


def _replace_history(
    messages: Sequence[ChatMessage], before: Sequence[ChatMessage], after: Sequence[ChatMessage]
) -> list[ChatMessage]:
    """Replaces the history within the messages of a call; messages that hooks added around it keep their place."""
    old = {id(message) for message in before}
    start = next((index for index, message in enumerate(messages) if id(message) in old), len(messages))
    others = [message for message in messages if id(message) not in old]
    return [*others[:start], *after, *others[start:]]
