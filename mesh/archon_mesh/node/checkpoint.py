"""Checkpoints of an agent: the messages since its query, stored with each delegation and each question to a person.

A later attempt resumes from the checkpoint instead of repeating the model calls.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from archon.errors import FrameTooLarge
from archon_mesh.core.media import media_from_json, media_to_json
from archon_mesh.core.messages import PROVIDER_STATE, ChatMessage, ToolCall
from archon_mesh.tools.result import ToolResult, ToolResultStatus

MAX_CHECKPOINT: Final = 512 * 1024
"""Bytes. Longer messages are not stored, and a later attempt resumes from the last checkpoint that exists."""

MAX_QUESTION_CHECKPOINT: Final = 1024 * 1024
"""Bytes of a checkpoint with which an attempt asks a person."""

_FORMAT: Final = "archon-conversation/1"


def encode_checkpoint(messages: Sequence[ChatMessage]) -> bytes:
    """Encodes model replies and tool results; the tool calls of the last reply are not executed yet.

    If the result would exceed MAX_CHECKPOINT, labels stand for the files of results, then the data that clients of
    models keep with a message is left out; without it, too, the result is empty if it is larger.
    """
    for with_files, with_state in _forms(messages):
        checkpoint = _encode(messages, with_files=with_files, with_state=with_state)
        if len(checkpoint) <= MAX_CHECKPOINT:
            return checkpoint
    return b""


def _forms(messages: Sequence[ChatMessage]) -> Iterator[tuple[bool, bool]]:
    """Yields whether a checkpoint has files and the state of clients: the first form that is small enough is stored."""
    if sum(len(file.data) for message in messages for file in message.files) < MAX_QUESTION_CHECKPOINT:
        yield True, True
    yield False, True
    yield False, False


def _encode(
    messages: Sequence[ChatMessage], *, with_files: bool, with_state: bool, calls: OpenCalls | None = None
) -> bytes:
    if not with_files:
        messages = [message.without_files() for message in messages]
    entries = [
        {"role": message.role, "content": message.content, "call": message.tool_call_id}
        | (
            {"calls": [[call.id, call.name, call.arguments_json] for call in message.tool_calls]}
            if message.tool_calls
            else {}
        )
        | ({"files": [media_to_json(file) for file in message.files]} if message.files else {})
        | ({"state": state} if with_state and (state := message.metadata.get(PROVIDER_STATE)) else {})
        for message in messages
    ]
    opened = {} if calls is None else {"open": _encode_calls(calls)}
    return json.dumps({"form": _FORMAT, "messages": entries, **opened}).encode()


def decode_checkpoint(checkpoint: bytes) -> list[ChatMessage]:
    """Decodes a checkpoint. Returns an empty list if it is empty, or of another format: the attempt starts anew."""
    try:
        data = json.loads(checkpoint)
        messages = [_decode_message(entry) for entry in data["messages"]] if data["form"] == _FORMAT else []
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return []
    return messages if messages and messages[-1].tool_calls else []


def _decode_message(entry: Mapping[str, Any]) -> ChatMessage:
    calls = tuple(
        ToolCall(name=name, id=call_id, arguments_json=arguments) for call_id, name, arguments in entry.get("calls", ())
    )
    metadata = {PROVIDER_STATE: entry["state"]} if "state" in entry else {}
    return ChatMessage(
        entry["role"],
        entry["content"],
        tool_calls=calls,
        tool_call_id=entry["call"],
        metadata=metadata,
        files=[media_from_json(file) for file in entry.get("files", ())],
    )


@dataclass(slots=True)
class OpenCalls:
    """The tool calls in the last reply of an attempt that asked a person, each by its index: the `results` of those
    that had ended, and the ids of the questions `asked` by the others. `count` is the number of questions so far."""

    count: int = 0
    results: Mapping[int, ToolResult] = field(default_factory=dict)
    asked: Mapping[int, Sequence[str]] = field(default_factory=dict)


def encode_question_checkpoint(messages: Sequence[ChatMessage], calls: OpenCalls) -> bytes:
    """Encodes the checkpoint of an attempt that ends with a question, as `encode_checkpoint` does, with the open calls.
    Raises FrameTooLarge above MAX_QUESTION_CHECKPOINT: without it, calls that had ended would be repeated."""
    for with_files, with_state in _forms(messages):
        checkpoint = _encode(messages, with_files=with_files, with_state=with_state, calls=calls)
        if len(checkpoint) <= MAX_QUESTION_CHECKPOINT:
            return checkpoint
    raise FrameTooLarge(
        f"the agent cannot ask a person: its checkpoint has {len(checkpoint):,} bytes, at most "
        f"{MAX_QUESTION_CHECKPOINT:,} are allowed"
    )


def decode_open_calls(checkpoint: bytes) -> OpenCalls:
    """Decodes the open calls of a checkpoint; none if it has none, or is of another format."""
    try:
        data = json.loads(checkpoint)["open"]
        return OpenCalls(
            int(data["count"]),
            {int(index): _decode_result(entry) for index, entry in data["results"].items()},
            {int(index): [str(input_id) for input_id in ids] for index, ids in data["asked"].items()},
        )
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return OpenCalls()


def _encode_calls(calls: OpenCalls) -> dict[str, Any]:
    return {
        "count": calls.count,
        "results": {str(index): _encode_result(result) for index, result in calls.results.items()},
        "asked": {str(index): list(ids) for index, ids in calls.asked.items()},
    }


def _encode_result(result: ToolResult) -> dict[str, Any]:
    names = {name: str(result.metadata[name]) for name in ("code", "reason", "kind") if name in result.metadata}
    return {"text": result.text, "status": result.status, "error": result.error_message, "metadata": names}


def _decode_result(entry: Mapping[str, Any]) -> ToolResult:
    return ToolResult(entry["text"], ToolResultStatus(entry["status"]), entry["error"], entry["metadata"])
