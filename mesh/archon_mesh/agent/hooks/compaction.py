"""Keeps a history within the window of its model."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

from archon.errors import InvalidArgument
from archon_mesh.agent.hooks.middleware import Middleware, settled
from archon_mesh.agent.hooks.points import HookContext
from archon_mesh.core.compaction import parted, rounds, sliding_window, summary, with_facts, without_tool_results
from archon_mesh.core.messages import ChatMessage
from archon_mesh.llm.base import ModelClient, ModelRequest, estimate_input

_log = logging.getLogger(__name__)

Strategy = Callable[[Sequence[ChatMessage], int], Any]

SUMMARISE: Final = (
    "Sum up the conversation so far, for the assistant who will go on with it and sees nothing else of it. Keep every "
    "name, number, date and URL exactly as it was said; what was asked, what was found, what was decided and what is "
    "still open. Leave out courtesies and what was superseded. Answer with the summary alone."
)


class ContextCompactionMiddleware(Middleware):
    """Before a call of the model whose messages and tools have more than `threshold` of `max_context_tokens`, the
    history is made shorter: by a `sliding_window` of `window_size` rounds, by `tool_result_compaction` (results older
    than these are left out), by `summarisation` (the model sums up what is older than these), or by a function of
    (messages, window_size), sync or async. Where that isn't enough, results are left out, and at last all but one
    round.

    With `auto_compact=False` it happens only where `compact` is called.
    """

    def __init__(
        self,
        max_context_tokens: int = 200_000,
        auto_compact: bool = True,
        threshold: float = 0.75,
        compaction_strategy: str | Strategy = "sliding_window",
        window_size: int = 2,
        model: ModelClient | None = None,
    ) -> None:
        """`model` sums up; None: the agent's own. Raises InvalidArgument for a strategy that isn't there, and for
        bounds that leave nothing."""
        if not callable(compaction_strategy) and compaction_strategy not in _STRATEGIES:
            raise InvalidArgument(
                f"there is no compaction strategy {compaction_strategy!r}; there are: {', '.join(_STRATEGIES)}, "
                "or a function"
            )
        if max_context_tokens < 1 or not 0 < threshold <= 1 or window_size < 1:
            raise InvalidArgument("max_context_tokens and window_size must be at least 1, threshold above 0, at most 1")
        self.limit = int(max_context_tokens * threshold)
        self.auto_compact = auto_compact
        self._strategy = compaction_strategy
        self._window = window_size
        self._model = model

    async def before_model(self, hook: HookContext) -> None:
        """Compacts where there is too much. Raises InvalidArgument where a function parts a call from its result."""
        params = hook.params
        if not self.auto_compact or params is None or estimate_input(params.request()) <= self.limit:
            return
        history = hook.state.history
        before = list(history)
        made = await self._compacted(before, hook.agent.models.client, estimate_input(params.request()))
        history.replace_all(made)
        params.messages[:] = _exchanged(params.messages, before, list(history))
        _log.info("%s: the history was compacted from %d messages to %d", hook.agent.name, len(before), len(made))

    async def compact(self, agent: Any) -> None:
        """Compacts an agent's history now."""
        agent.history.replace_all(await self._compacted(list(agent.history), agent.models.client, 0))

    async def _compacted(self, messages: list[ChatMessage], model: ModelClient, tokens: int) -> list[ChatMessage]:
        made = await self._by_strategy(messages, model)
        if wrong := parted(made):
            raise InvalidArgument(f"the compaction strategy has left a conversation that is none: {wrong}")
        for harder in (without_tool_results, sliding_window):
            if tokens - _tokens(messages) + _tokens(made) <= self.limit:
                break
            made = harder(made, 1)
        return made

    async def _by_strategy(self, messages: list[ChatMessage], model: ModelClient) -> list[ChatMessage]:
        if callable(self._strategy):
            return list(await settled(self._strategy(messages, self._window)))
        if self._strategy == "summarisation":
            return await self._summed_up(messages, self._model or model)
        return _STRATEGIES[self._strategy](messages, self._window)

    async def _summed_up(self, messages: list[ChatMessage], model: ModelClient) -> list[ChatMessage]:
        every = rounds(messages)
        old = [message for one in every[: -self._window] for message in one]
        if not old:
            return messages
        recent = [message for one in every[-self._window :] for message in one]
        asked = next((one for one in reversed(old) if one.role == "user"), None)
        told = ChatMessage("user", f"{SUMMARISE}\n\n{_transcript(old)}")
        text = (await model.generate(ModelRequest((told,), timeout=120.0))).text
        kept = [asked] if asked is not None and not any(one.role == "user" for one in recent) else []
        return [summary(with_facts(text.strip(), old)), *kept, *recent]


_STRATEGIES: dict[str, Callable[[Sequence[ChatMessage], int], list[ChatMessage]]] = {
    "sliding_window": sliding_window,
    "tool_result_compaction": without_tool_results,
    "summarisation": sliding_window,  # in its own way, above
}


def _tokens(messages: Sequence[ChatMessage]) -> int:
    return estimate_input(ModelRequest(messages))


def _exchanged(
    messages: Sequence[ChatMessage], before: Sequence[ChatMessage], after: Sequence[ChatMessage]
) -> list[ChatMessage]:
    """What stands for the history exchanged; what others have put around it stays where it was."""
    old = {id(message) for message in before}
    at = next((number for number, message in enumerate(messages) if id(message) in old), len(messages))
    made = [message for message in messages if id(message) not in old]
    return [*made[:at], *after, *made[at:]]


def _transcript(messages: Sequence[ChatMessage]) -> str:
    lines = []
    for message in messages:
        if message.content:
            lines.append(f"{message.role}: {message.content}")
        lines += [f"assistant calls {call.name}: {call.arguments_json}" for call in message.tool_calls]
    return "\n".join(lines)
