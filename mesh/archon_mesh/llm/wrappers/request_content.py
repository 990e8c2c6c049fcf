"""The content of a request, as JSON: requests with the same content are the same request."""

from __future__ import annotations

import json
from typing import Any

from archon_mesh.llm.base import ModelRequest
from archon_mesh.llm.wire import message_to_record, tool_to_wire


def request_content(request: ModelRequest) -> dict[str, Any]:
    """Returns messages, tools, temperature, limit and output schema, without timeouts and metadata."""
    content: dict[str, Any] = {"messages": [message_to_record(message) for message in request.messages]}
    if request.tools:
        content["tools"] = [tool_to_wire(tool) for tool in request.tools]
    if request.temperature is not None:
        content["temperature"] = request.temperature
    if request.max_tokens is not None:
        content["max_tokens"] = request.max_tokens
    if request.output_schema is not None:
        content["output_schema"] = dict(request.output_schema)
    return content


def canonical(content: Any) -> str:
    """Returns JSON in which equal values are equal texts, a line per value."""
    return json.dumps(content, sort_keys=True, ensure_ascii=False, indent=1)
