"""Records without their contents, for ARCHON_RECORDS=redacted.

Kept: models, tools and roles by name, types and sizes of files, the roles and the origins of messages, ids of calls,
parameters, statuses, usage, and, in place of each text, its length, an estimate of its tokens and a hash. Removed: the
texts of messages and replies, names of files, arguments and results of tools, messages of errors, descriptions and
schemas of tools, and the metadata of messages, which holds the thinking that goes back to the provider.
"""

from __future__ import annotations

from typing import Any, Final

from archon.agent.redaction import redacted_text, redacted_value

_MESSAGE: Final = ("role", "name", "tool_call_id")
_SENT: Final = ("api", "has_key", "bytes")


def redacted_request(request: dict[str, Any]) -> dict[str, Any]:
    """Returns a recorded request without its contents."""
    redacted = {key: value for key, value in request.items() if key not in ("messages", "tools")}
    redacted["messages"] = [_message(message) for message in request["messages"]]
    if request.get("tools"):
        redacted["tools"] = [_tool(tool) for tool in request["tools"]]
    if "output_schema" in request:
        redacted["output_schema"] = redacted_value(request["output_schema"])
    if sent := request.get("sent"):
        redacted["sent"] = {key: sent[key] for key in _SENT if key in sent}
    return redacted


def redacted_response(response: dict[str, Any]) -> dict[str, Any]:
    """Returns a recorded response without its contents."""
    redacted = {**response, "text": redacted_text(response.get("text") or "")}
    if calls := response.get("tool_calls"):
        redacted["tool_calls"] = [_call(call) for call in calls]
    if error := response.get("error"):
        redacted["error"] = {**error, "message": redacted_text(error["message"])}
    return redacted


def _message(message: dict[str, Any]) -> dict[str, Any]:
    redacted: dict[str, Any] = {key: message[key] for key in _MESSAGE if key in message}
    content = message.get("content")
    redacted["content"] = content if content is None else redacted_value(content)
    if calls := message.get("tool_calls"):
        redacted["tool_calls"] = [_call(call) for call in calls]
    if files := message.get("files"):
        redacted["files"] = [_file(file) for file in files]
    return redacted


def _file(file: dict[str, Any]) -> dict[str, Any]:
    """Keeps type and size. The hash of a file could be compared with the hashes of known files."""
    kept = {key: file[key] for key in ("media_type", "bytes") if key in file}
    return kept | {key: redacted_text(file[key]) for key in ("name", "url", "hash") if key in file}


def _call(call: dict[str, Any]) -> dict[str, Any]:
    function = call["function"]
    return {**call, "function": {"name": function["name"], "arguments": redacted_value(function["arguments"])}}


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    function = tool["function"]
    definition = {key: value for key, value in function.items() if key != "name"}
    return {"type": tool["type"], "function": {"name": function["name"], **redacted_value(definition)}}
