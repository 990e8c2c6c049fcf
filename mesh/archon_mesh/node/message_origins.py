"""Where each message of a model request comes from, for the record of the request."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Final

from archon_mesh.core.messages import ORIGIN, ChatMessage


class Origin(StrEnum):
    """The origin of a message of a request."""

    SYSTEM_PROMPT = "system_prompt"
    """The agent's own system prompt."""
    AWARENESS = "awareness"
    """The dependencies among the roles that the agent can delegate to."""
    SHARED_CONTEXT = "shared_context"
    """The answer of another role; recorded with `role` and `version`, and with `step` if a step gave it."""
    SESSION_HISTORY = "session_history"
    """A message of an earlier run of the session."""
    SUMMARY = "summary"
    """The summary that compaction has put in place of older messages."""
    MEMORY = "memory"
    """Retrieved from a memory."""
    INPUT = "input"
    """The input of the task."""
    STEP = "step"
    """An earlier reply of the model in this run."""
    TOOL_RESULT = "tool_result"
    """The result of a tool or a sub-agent in this run; recorded with `tool`."""
    NOTE = "note"
    """A note of the loop to the model beside the history, such as that this is its last step."""
    OUTPUT = "output"
    """The request for JSON of the schema of the answer."""
    HOOK = "hook"
    """Added by a hook that did not say more."""


_NAMED: Final = {origin.value for origin in Origin}


def message_origins(messages: Sequence[ChatMessage], system_prompt: str, run_id: str) -> list[dict[str, Any]]:
    """Returns one JSON object per message: its `kind`, an Origin, and the fields recorded with that kind.

    `system_prompt` and `run_id` belong to the agent that makes the request.
    """
    tools: dict[str, str] = {}
    origins: list[dict[str, Any]] = []
    for index, message in enumerate(messages):
        tools.update((call.id, call.name) for call in message.tool_calls)
        origins.append(_origin(message, index, system_prompt, run_id, tools))
    return origins


def _origin(message: ChatMessage, index: int, system_prompt: str, run_id: str, tools: dict[str, str]) -> dict[str, Any]:
    metadata = message.metadata
    if metadata.get(ORIGIN) == Origin.TOOL_RESULT:  # written as a text of the user: the role does not tell
        if message.run_id and message.run_id != run_id:
            return {"kind": Origin.SESSION_HISTORY}
        return {"kind": Origin.TOOL_RESULT, "tool": metadata.get("tool", "")}
    if metadata.get(ORIGIN) in _NAMED:
        return {"kind": metadata[ORIGIN]}
    if metadata.get("shared_memory") is True:
        role, version = metadata.get("shared_memory_source"), metadata.get("shared_memory_version")
        origin = {"kind": Origin.SHARED_CONTEXT, "role": role, "version": version}
        step = metadata.get("shared_memory_task")
        return {**origin, "step": step} if step else origin
    if metadata.get("orchestrator_awareness") is True:
        return {"kind": Origin.AWARENESS}
    if metadata.get("summary") is True:
        return {"kind": Origin.SUMMARY}
    if message.role == "system" and not message.run_id:
        is_prompt = index == 0 and bool(system_prompt) and system_prompt in message.content
        return {"kind": Origin.SYSTEM_PROMPT if is_prompt else Origin.HOOK}
    if not message.run_id:
        return {"kind": Origin.HOOK}
    if message.run_id != run_id:
        return {"kind": Origin.SESSION_HISTORY}
    match message.role:
        case "user":
            return {"kind": Origin.INPUT}
        case "tool":
            return {"kind": Origin.TOOL_RESULT, "tool": tools.get(message.tool_call_id or "", "")}
    return {"kind": Origin.STEP}
