"""Records without their contents, for ARCHON_RECORDS=redacted.

What stays: models, tools and roles by name, the roles and the origins of messages, ids of calls, parameters, statuses,
usage, and, in place of each text, its length, an estimate of its tokens and a hash. What goes: the texts of messages
and replies, arguments and results of tools, messages of errors, descriptions and schemas of tools, and the metadata of
messages, which holds the thinking that goes back to the provider.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import os
import secrets
from enum import StrEnum
from typing import Any, Final

from archon_mesh.llm.base import estimate_tokens

REDACTED: Final = "redacted"
"""The key of what stands in place of a text."""

_KEY: Final = secrets.token_bytes(32)
"""Hashes tell whether two texts of one process are equal. Without the key, which no record has, texts cannot be guessed
from them."""

_MESSAGE: Final = ("role", "name", "tool_call_id")
_log = logging.getLogger(__name__)


class RecordMode(StrEnum):
    """How much of a call is recorded."""

    FULL = "full"
    REDACTED = "redacted"
    OFF = "off"


def record_mode() -> RecordMode:
    """Returns the mode of ARCHON_RECORDS; REDACTED for an unknown value, which may be meant to hide something."""
    value = os.environ.get("ARCHON_RECORDS") or RecordMode.FULL
    try:
        return RecordMode(value)
    except ValueError:
        _log.warning("ARCHON_RECORDS is %r, expected full, redacted or off: contents are not recorded", value)
        return RecordMode.REDACTED


def redacted_text(text: str) -> dict[str, Any]:
    """Returns what is recorded in place of a text: `chars`, `tokens` (estimated), `hash` (64 bits of HMAC-SHA256)."""
    digest = hmac.new(_KEY, text.encode(errors="surrogatepass"), hashlib.sha256).hexdigest()[:16]
    return {REDACTED: {"chars": len(text), "tokens": estimate_tokens(text), "hash": digest}}


def redacted_value(value: Any) -> dict[str, Any]:
    """Returns what is recorded in place of a JSON value: that of its text without spaces."""
    text = (
        value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    )
    return redacted_text(text)


def redacted_request(request: dict[str, Any]) -> dict[str, Any]:
    """Returns a recorded request without its contents."""
    redacted = {key: value for key, value in request.items() if key not in ("messages", "tools")}
    redacted["messages"] = [_message(message) for message in request["messages"]]
    if request.get("tools"):
        redacted["tools"] = [_tool(tool) for tool in request["tools"]]
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
    return redacted


def _call(call: dict[str, Any]) -> dict[str, Any]:
    function = call["function"]
    return {**call, "function": {"name": function["name"], "arguments": redacted_value(function["arguments"])}}


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    function = tool["function"]
    definition = {key: value for key, value in function.items() if key != "name"}
    return {"type": tool["type"], "function": {"name": function["name"], **redacted_value(definition)}}
