"""The result of a call of a shared tool, for the caller and for the owner."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from archon.api.tool.v1 import tool_pb2
from archon.errors import UnknownFailure
from archon.failure_kinds import TOOL_CRASH
from archon.json_text import json_or
from archon.surrogates import without_surrogates
from archon.wire import duration, to_seconds

MAX_RESULT_BYTES: Final = 2 * 1024 * 1024
"""Bytes of the content of a result as JSON. A larger one is an error result."""

MAX_ERROR: Final = 4 * 1024
"""Characters of the error message of a result; longer ones are cut."""

MAX_METADATA: Final = 16
MAX_METADATA_TEXT: Final = 256
"""Entries of a result's metadata, and characters of a key and of a value; the rest is left out."""


class SharedToolStatus(StrEnum):
    """How a call of a shared tool ended."""

    SUCCESS = "success"
    ERROR = "error"
    TIMEOUT = "timeout"


_TO_PROTO: Final = {
    SharedToolStatus.SUCCESS: tool_pb2.TOOL_STATUS_SUCCESS,
    SharedToolStatus.ERROR: tool_pb2.TOOL_STATUS_ERROR,
    SharedToolStatus.TIMEOUT: tool_pb2.TOOL_STATUS_TIMEOUT,
}
_FROM_PROTO: Final = {int(number): status for status, number in _TO_PROTO.items()}
_MISSING: Final = object()


@dataclass(frozen=True, slots=True)
class SharedToolResult:
    """The result of a call: a JSON value as `content`, or an `error_message` in one sentence. `seconds` is the time
    that the tool itself took. `metadata` of a failed call may have `code`, `reason` and `kind` of the failure."""

    content: Any = None
    status: SharedToolStatus = SharedToolStatus.SUCCESS
    error_message: str = ""
    seconds: float = 0.0
    metadata: Mapping[str, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether the call succeeded."""
        return self.status is SharedToolStatus.SUCCESS

    @property
    def proto(self) -> tool_pb2.ToolResult:
        """The result as a message. Raises TypeError, ValueError or RecursionError if the content is not a JSON
        value."""
        content = json.dumps(self.content, ensure_ascii=False, allow_nan=False) if self.ok else ""
        metadata = list(self.metadata.items())[:MAX_METADATA]
        return tool_pb2.ToolResult(
            status=_TO_PROTO[self.status],
            content_json=without_surrogates(content),
            error_message=without_surrogates(self.error_message[:MAX_ERROR]),
            execution_time=duration(max(0.0, self.seconds)),
            metadata={_text(key): _text(value) for key, value in metadata},
        )

    @classmethod
    def from_proto(cls, message: tool_pb2.ToolResult) -> SharedToolResult:
        """Returns the result that a message has, which may come from anybody. Raises UnknownFailure if it is no result:
        without a known status, or with a content that is not JSON."""
        status = _FROM_PROTO.get(message.status)
        if status is None:
            raise UnknownFailure("the owner of the tool answered without a status", kind=TOOL_CRASH)
        content = None
        if status is SharedToolStatus.SUCCESS and message.content_json:
            content = json_or(message.content_json, _MISSING)
            if content is _MISSING:
                raise UnknownFailure("the owner of the tool answered with a content that is not JSON", kind=TOOL_CRASH)
        metadata = {key: value[:MAX_METADATA_TEXT] for key, value in list(message.metadata.items())[:MAX_METADATA]}
        error = message.error_message[:MAX_ERROR]
        if status is not SharedToolStatus.SUCCESS:
            error = error or f"the tool ended with the status {status}"
        return cls(content, status, error, to_seconds(message.execution_time), metadata)


def _text(text: str) -> str:
    return without_surrogates(str(text)[:MAX_METADATA_TEXT])
