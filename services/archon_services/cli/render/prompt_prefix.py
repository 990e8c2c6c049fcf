"""Advice from the prompts of a run together: a beginning that changes from call to call, so that the provider's cache
has none of it, a beginning that stays and is not cached, and tools that no call has used.

A provider reads from its cache the longest beginning that an earlier request had, tools first, then the messages.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from archon.api.orchestrator.v1.run_pb2 import RunRecord
from archon.json_text import json_or
from archon_services.cli.render.prompt_sections import Prompt, PromptMessage, messages_of, redaction, request_of
from archon_services.reports.texts import one_line

MIN_CACHED: Final = 1_024
"""Tokens of a beginning from which on providers keep it
(https://platform.openai.com/docs/guides/prompt-caching, Anthropic's models alike)."""

MIN_LOST: Final = 256
"""Estimated tokens behind a change from which on it is worth a line."""

MIN_CALLS: Final = 2
"""Calls of a role from which on a tool that none of them used is named."""

AROUND: Final = 20
"""Characters of a text that are shown before and after the place where it changes."""

_CHANGING: Final = frozenset({"note", "summary"})
"""Origins that stand at the end of a prompt, or replace earlier messages on purpose."""


@dataclass(slots=True)
class _Last:
    """The last prompt of a role: its messages, their origins and its tools, and the task and attempt."""

    messages: Sequence[str]
    origins: Sequence[str]
    tools: Sequence[str]
    task: tuple[str, int]


@dataclass(slots=True)
class _Offered:
    """The calls of a role that had tools, and the tools that they offered and that its models called."""

    calls: int = 0
    tokens: dict[str, int] = field(default_factory=dict)
    called: set[str] = field(default_factory=set)


class PrefixAdvice:
    """Looks at the model calls of a run in their order; adds advice to the prompts, and returns the rest at the end."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], _Last] = {}
        self._offered: dict[str, _Offered] = {}

    def add(self, record: RunRecord, prompt: Prompt) -> None:
        """Adds advice to the prompt that follows from the call of the same role and model before."""
        request = request_of(record)
        messages = [_sent(message) for message in messages_of(request)]
        tools = [json.dumps(tool, sort_keys=True) for tool in request.get("tools") or []]
        key, task = (record.role, record.target), (record.task.task_id, record.task.attempt)
        before = self._last.get(key)
        if before is not None and messages:
            prompt.advice.extend(self._compared(before, messages, tools, task, prompt))
        if messages:
            self._last[key] = _Last(messages, [message.origin for message in prompt.messages], tools, task)
        self._note_tools(record, request)

    def rest(self) -> Iterator[str]:
        """Yields the tools that no call of a role has used."""
        for role, offered in self._offered.items():
            unused = {name: tokens for name, tokens in offered.tokens.items() if name not in offered.called}
            if offered.calls >= MIN_CALLS and unused:
                tokens = sum(unused.values())
                yield (
                    f"unused: {role} offers {', '.join(sorted(unused))} in {offered.calls} calls, ~{tokens:,} tokens "
                    "each, and no model has called them: leave them out"
                )

    def _compared(
        self, before: _Last, messages: Sequence[str], tools: Sequence[str], task: tuple[str, int], prompt: Prompt
    ) -> Iterator[str]:
        if tools != before.tools:
            if tools and before.tools:
                yield (
                    "changes: the tools differ from the call before: nothing of this prompt is read from the cache; "
                    "offer the same ones in the same order"
                )
            return
        same = next(
            (index for index, (old, new) in enumerate(zip(before.messages, messages, strict=False)) if old != new),
            min(len(before.messages), len(messages)),
        )
        is_step = task == before.task
        kept = sum(message.tokens for message in prompt.messages[:same])
        changed = prompt.messages[same] if same < len(prompt.messages) else None
        # Between two tasks, only the own prompt is meant to be the same; within one, all earlier messages are.
        is_change = changed is not None and same < len(before.messages) and before.origins[same] not in _CHANGING
        if changed is not None and is_change and _is_meant_to_stay(changed, is_step=is_step):
            lost = sum(message.tokens for message in prompt.messages[same:])
            if lost >= MIN_LOST:
                yield (
                    f"changes: message {changed.number} ({changed.label}) differs from the call before"
                    f"{_place(before.messages[same], messages[same])}: ~{lost:,} tokens from there on are not read "
                    "from the cache; move what changes behind what stays"
                )
        counted = not prompt.estimated and not prompt.cached
        if counted and kept >= MIN_CACHED:
            yield (
                f"not cached: the first {same} messages (~{kept:,} tokens) are as in the call before, and none of them "
                "was read from the provider's cache"
            )

    def _note_tools(self, record: RunRecord, request: Mapping[str, Any]) -> None:
        tools = request.get("tools") or []
        if not tools:
            return
        offered = self._offered.setdefault(record.role, _Offered())
        offered.calls += 1
        for tool in tools:
            function = tool.get("function") or {}
            if redaction(function) is None:
                offered.tokens[str(function.get("name", ""))] = len(json.dumps(function)) // 4
        response = json_or(record.response_json)
        calls = response.get("tool_calls") if isinstance(response, dict) else None
        offered.called.update(str((call.get("function") or {}).get("name", "")) for call in calls or ())


def _is_meant_to_stay(message: PromptMessage, *, is_step: bool) -> bool:
    return message.origin not in _CHANGING if is_step else message.origin == "system_prompt"


def _sent(message: Mapping[str, Any]) -> str:
    return json.dumps({key: value for key, value in message.items() if key != "metadata"}, sort_keys=True)


def _place(before: str, now: str) -> str:
    """Returns the place of the first difference of two messages, with the text around it; empty if it is not a text."""
    old, new = (json.loads(message).get("content") for message in (before, now))
    if not isinstance(old, str) or not isinstance(new, str) or old == new:
        return ""
    at = next((index for index, (one, other) in enumerate(zip(old, new, strict=False)) if one != other), 0)
    start = max(0, at - AROUND)
    was, now_is = (one_line(text[start : at + AROUND], 2 * AROUND) for text in (old, new))
    return f" at character {at + 1:,} ({was!r} before, {now_is!r} now)"
