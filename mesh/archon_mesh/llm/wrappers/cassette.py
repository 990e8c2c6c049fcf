"""Cassettes: files of requests and their replies, one JSON object per line."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from archon.errors import InvalidArgument
from archon_mesh.core.messages import ToolCall
from archon_mesh.llm.base import ModelReply, Usage

MAX_BYTES: Final = 64 * 1024**2
"""Bytes of a cassette."""

REDACTED: Final = "[secret]"
MIN_SECRET: Final = 8
"""Characters of a variable's value from which on it is replaced; a shorter one would be found in ordinary words."""

_SECRET_NAMES: Final = re.compile(r"(?i)(key|token|secret|password|passwd|credentials?)$")
_SECRET_TEXTS: Final = re.compile(r"(?i)\bsk-[\w-]{8,}|(?<=\bbearer )\S+")


def redacted(value: Any, secrets: Iterable[str]) -> Any:
    """Returns a JSON value in whose texts no secret is left, and nothing that looks like the key of a provider."""
    if isinstance(value, str):
        for secret in secrets:
            value = value.replace(secret, REDACTED)
        return _SECRET_TEXTS.sub(REDACTED, value)
    if isinstance(value, Mapping):
        return {key: redacted(item, secrets) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [redacted(item, secrets) for item in value]
    return value


def secrets_of_environment() -> list[str]:
    """Returns the values of variables whose names end like a secret's, such as OPENAI_API_KEY."""
    values = {
        value.strip()
        for name, value in os.environ.items()
        if _SECRET_NAMES.search(name) and len(value.strip()) >= MIN_SECRET
    }
    return sorted(values, key=len, reverse=True)


def encode_reply(reply: ModelReply, thinking: str) -> dict[str, Any]:
    """Returns a reply as JSON. Data that only the provider understands is left out: a replay has no provider."""
    usage = reply.usage
    return {
        "model": reply.model,
        "text": reply.text,
        "thinking": thinking,
        "tool_calls": [[call.id, call.name, call.arguments_json] for call in reply.tool_calls],
        "finish_reason": reply.finish_reason,
        "usage": {name: getattr(usage, name) for name in Usage.__slots__},
    }


def decode_reply(data: Any) -> tuple[ModelReply, str]:
    """Returns a reply and its thinking. Raises InvalidArgument if it is malformed."""
    try:
        calls = tuple(ToolCall(str(a), str(b), str(c)) for a, b, c in data["tool_calls"])
        usage = Usage(**data["usage"])
        reply = ModelReply(str(data["text"]), calls, usage, str(data["model"]), str(data["finish_reason"]))
        return reply, str(data["thinking"])
    except (LookupError, TypeError, ValueError) as error:
        raise InvalidArgument(f"malformed reply ({type(error).__name__}: {error})") from None


def encode_line(request: Any, reply: Any) -> str:
    """Returns a line of a cassette: an object of JSON with `request` and `reply`, and its end of line."""
    return json.dumps({"request": request, "reply": reply}, ensure_ascii=False) + "\n"
