"""Errors of the mesh as errors of JSON-RPC, with the reason of Archon in their data."""

from __future__ import annotations

from typing import Any, Final

import mcp_types as types
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, MISSING_REQUIRED_CLIENT_CAPABILITY
from pydantic import ValidationError

from archon.errors import ArchonError, FailedPrecondition, InvalidArgument, NotFound, PermissionDenied, Unauthenticated
from archon.status import as_error

TASKS: Final = "io.modelcontextprotocol/tasks"
"""The extension for tasks: https://modelcontextprotocol.github.io/ext-tasks/."""

_OF_CALLERS: Final = (
    (InvalidArgument, INVALID_PARAMS),
    (NotFound, INVALID_PARAMS),
    (FailedPrecondition, INVALID_REQUEST),
    (PermissionDenied, INVALID_REQUEST),
    (Unauthenticated, INVALID_REQUEST),
)


def refused(error: ArchonError) -> MCPError:
    """Returns the error of JSON-RPC for an error of the mesh."""
    code = next((code for kind, code in _OF_CALLERS if isinstance(error, kind)), INTERNAL_ERROR)
    data: dict[str, Any] = {"archonReason": error.reason, "archonCode": error.code, **error.metadata}
    if error.retry_delay is not None:
        data["retryDelay"] = f"{error.retry_delay:g}s"
    return MCPError(code, str(error), data)


def error_result(error: ArchonError) -> types.CallToolResult:
    """Returns an error as the result of a tool, so that the model sees it."""
    meta = {"dev.archon/reason": error.reason} if error.reason else None
    return types.CallToolResult(content=[types.TextContent(text=str(error))], is_error=True, _meta=meta)


def needs_tasks() -> MCPError:
    """Returns the error for a request of the extension from a client that has not declared it."""
    required: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
    return MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, f"the client does not declare the extension {TASKS}", required)


async def typed_errors(context: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Middleware of the server: whatever a handler raises, the client gets a typed error."""
    try:
        return await call_next(context)
    except (MCPError, ValidationError):
        raise
    except Exception as raised:  # noqa: BLE001 - of whatever kind it is
        raise refused(as_error(raised)) from None
