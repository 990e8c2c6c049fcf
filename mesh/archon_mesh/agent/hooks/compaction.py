"""Compaction: keeps a history within the context window of its model."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from typing_extensions import override

from archon.errors import InvalidArgument
from archon_mesh.agent.hooks.context import HookContext
from archon_mesh.agent.hooks.middleware import Middleware, maybe_await
from archon_mesh.agent.state.running_agent import RunningAgent
from archon_mesh.call_log import log_model_call
from archon_mesh.core.compaction import (
    broken_pairing,
    rounds,
    sliding_window,
    summary,
    with_facts,
    without_tool_results,
)
from archon_mesh.core.messages import ChatMessage
from archon_mesh.core.transcript import transcript
from archon_mesh.llm import deadline
from archon_mesh.llm.base import CALL_TIMEOUT, ModelClient, ModelRequest
from archon_mesh.llm.calibration import calibrated_input

_log = logging.getLogger(__name__)

Strategy = Callable[[Sequence[ChatMessage], int], Any]

CUSTOM: Final = "custom"

SUMMARY_PROMPT: Final = (
    "Sum up the conversation so far, for the assistant who will go on with it and sees nothing else of it. Keep every "
    "name, number, date and URL exactly as it was said; what was asked, what was found, what was decided and what is "
    "still open. Leave out courtesies and what was superseded. Answer with the summary alone."
)


class ContextCompactionMiddleware(Middleware):
    """Shortens the history before a model call whose messages and tools exceed `threshold` x `max_context_tokens`, as
    estimated and corrected by earlier calls of the model.

    Strategies: `sliding_window` keeps the last `window_size` rounds; `tool_result_compaction` drops tool results older
    than these; `summarisation` has the model summarise the older rounds; `custom` calls `custom_strategy`, a function
    of (messages, window_size), sync or async, that returns the new messages; in YAML it is the function's import path.
    A function may also be given as `compaction_strategy` itself. If the result is still too long, tool results are
    dropped, then all rounds but the last.

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
    ) -> None:
        """`model` writes the summaries, None for the agent's own model, each within `timeout` seconds.

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
        compacted = await self._compacted(before, model, tokens)
        history.replace_all(compacted)
        params.messages[:] = _replace_history(params.messages, before, list(history))
        _log.info("%s: compacted the history from %d messages to %d", hook.agent.name, len(before), len(compacted))

    async def compact(self, agent: RunningAgent) -> None:
        """Compacts the history of an agent now."""
        agent.history.replace_all(await self._compacted(list(agent.history), agent.model, 0))

    async def _compacted(self, messages: list[ChatMessage], model: ModelClient, tokens: int) -> list[ChatMessage]:
        compacted = await self._apply_strategy(messages, model)
        if problem := broken_pairing(compacted):
            raise InvalidArgument(f"the compaction strategy returned an invalid conversation: {problem}")
        for fallback in (without_tool_results, sliding_window):
            if tokens - _tokens(model, messages) + _tokens(model, compacted) <= self.limit:
                break
            compacted = fallback(compacted, 1)
        return compacted

    async def _apply_strategy(self, messages: list[ChatMessage], model: ModelClient) -> list[ChatMessage]:
        if callable(self._strategy):
            return list(await maybe_await(self._strategy(messages, self._window)))
        if self._strategy == "summarisation":
            return await self._summarise(messages, self._model or model)
        return _STRATEGIES[self._strategy](messages, self._window)

    async def _summarise(self, messages: list[ChatMessage], model: ModelClient) -> list[ChatMessage]:
        all_rounds = rounds(messages)
        old = [message for each in all_rounds[: -self._window] for message in each]
        if not old:
            return messages
        recent = [message for each in all_rounds[-self._window :] for message in each]
        last_query = next((message for message in reversed(old) if message.role == "user"), None)
        prompt = ChatMessage("user", f"{SUMMARY_PROMPT}\n\n{transcript(old)}")
        text = await _text_of(model, ModelRequest((prompt,), timeout=self._timeout))
        has_query = any(message.role == "user" for message in recent)
        kept = [last_query] if last_query is not None and not has_query else []
        return [summary(with_facts(text.strip(), old)), *kept, *recent]


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
