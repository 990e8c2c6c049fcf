"""Writes a request in the text format: rules and tools in the system prompt, calls and results as plain text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from archon_mesh.core.messages import OF_RESULT, ORIGIN, ChatMessage
from archon_mesh.llm.base import ModelRequest, ToolSpec

RULES: Final = """You can use tools. Reply in one of these two forms, and write nothing else.

To use a tool:
Thought: why you use it
Action: {"tool": "its name", "arguments": {"name of an argument": "its value"}}

To give your answer:
Thought: why you are done
Final Answer: your answer

The action is one JSON object with double quotes. Use one tool at a time, then stop: its result comes as an Observation.
Never write an Observation yourself.

Tools, each with the JSON Schema of its arguments:"""

REPAIR: Final = (
    "Your reply could not be read. Reply again with valid JSON only, and nothing before or after it: either "
    '{"tool": "its name", "arguments": {...}} or {"final_answer": "your answer"}.'
)
"""Asks for a reply that can be read."""

MAX_QUOTED: Final = 4_000
"""Characters of a reply that could not be read, as the model sees it again."""


def to_text(request: ModelRequest) -> ModelRequest:
    """Returns the request in plain text, without tools."""
    messages: list[ChatMessage] = []
    tools = {call.id: call.name for message in request.messages for call in message.tool_calls}
    for message in request.messages:
        written = _written(message, tools)
        if message.role == "tool" and messages and messages[-1].content.startswith("Observation: "):
            # Many chat templates refuse two messages of one role in a row.
            last = messages.pop()
            written = replace(
                written,
                content=f"{last.content}\n{written.content}",
                files=(*last.files, *written.files),
                metadata={**last.metadata, **written.metadata},
            )
        messages.append(written)
    if request.tools:
        _add_rules(messages, request.tools)
    # The messages ask for the schema of an answer: enforced, it would leave no room for a thought or a call.
    return replace(request, messages=tuple(messages), tools=(), output_schema=None)


def repair_of(request: ModelRequest, reply: str) -> ModelRequest:
    """Returns the request with a reply that could not be read, and the request for valid JSON."""
    quoted = ChatMessage("assistant", reply[:MAX_QUOTED] or "(an empty reply)", metadata={ORIGIN: "step"})
    asked = ChatMessage("user", REPAIR, metadata={ORIGIN: "note"})
    return replace(request, messages=(*request.messages, quoted, asked))


def _written(message: ChatMessage, tools: Mapping[str, str]) -> ChatMessage:
    if message.role == "tool":
        tool = tools.get(message.tool_call_id or "", "")
        metadata: dict[str, object] = {ORIGIN: "tool_result", "tool": tool} | (
            {OF_RESULT: True} if message.files else {}
        )
        observation = f"Observation: {message.content}"
        return ChatMessage("user", observation, metadata=metadata, files=message.files, run_id=message.run_id)
    if not message.tool_calls:
        return message
    lines = [f"Thought: {message.content}"] if message.content else []
    for call in message.tool_calls:
        lines.append(f'Action: {{"tool": {json.dumps(call.name)}, "arguments": {call.arguments_json or "{}"}}}')
    return ChatMessage("assistant", "\n".join(lines), run_id=message.run_id)


def _add_rules(messages: list[ChatMessage], tools: Sequence[ToolSpec]) -> None:
    lines = [
        f"- {tool.name}: {tool.description} {json.dumps(dict(tool.parameters_schema), ensure_ascii=False)}"
        for tool in tools
    ]
    rules = "\n".join([RULES, *lines])
    if messages and messages[0].role == "system":
        messages[0] = replace(messages[0], content=f"{messages[0].content}\n\n{rules}")
    else:
        messages.insert(0, ChatMessage("system", rules, metadata={ORIGIN: "note"}))
