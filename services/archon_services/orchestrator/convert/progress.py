"""The progress of an attempt as an event for watchers."""

from __future__ import annotations

from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.wire import set_seconds


def progress_event(
    ref: common_pb2.TaskRef, progress: agent_pb2.Progress, role: str, now: float
) -> run_pb2.RunEvent | None:
    """Returns the event of a piece of text, thinking or tool call; None if the progress has none of them. `now` is in
    seconds since the Unix epoch."""
    event = run_pb2.RunEvent(run_id=ref.run_id, task=ref)
    set_seconds(event.time, now)
    match progress.WhichOneof("content"):
        case "text":
            event.text_delta.role, event.text_delta.text = role, progress.text
            event.text_delta.offset = progress.offset
        case "thinking":
            event.thinking_delta.role, event.thinking_delta.text = role, progress.thinking
        case "tool_arguments":
            piece, delta = progress.tool_arguments, event.tool_arguments_delta
            delta.role, delta.call_id, delta.tool_name = role, piece.call_id, piece.tool_name
            delta.text = piece.delta
        case "tool_event":
            tool_event = progress.tool_event
            event.tool_event.role, event.tool_event.call_id = role, tool_event.call_id
            event.tool_event.tool_name, event.tool_event.failed = tool_event.tool_name, tool_event.failed
            event.tool_event.arguments_json = tool_event.arguments_json
            event.tool_event.result_json = tool_event.result_json
        case _:
            return None
    return event
