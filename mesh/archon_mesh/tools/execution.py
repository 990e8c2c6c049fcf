"""One attempt at a call: in a task of its own, within its time limit; whatever the tool raises or returns becomes a
result of bounded size without secrets and without a traceback."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import traceback
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Final

from archon.errors import ArchonError, DeadlineExceeded, UnknownFailure
from archon.failure_kinds import TOOL_CRASH, TOOL_TIMEOUT
from archon_mesh.tools.credentials import Secret, redacted
from archon_mesh.tools.failures import MAX_MESSAGE, failed, failure_of
from archon_mesh.tools.media_types import check_output
from archon_mesh.tools.output_limit import CUT, MAX_METADATA_BYTES, MAX_OUTPUT_BYTES, limited
from archon_mesh.tools.person_time import work_time
from archon_mesh.tools.result import ToolOutcome, ToolResult, ToolResultStatus, as_result
from archon_mesh.tools.tool import Tool

_log = logging.getLogger(__name__)

GRACE: Final = 1.0
"""Seconds that a tool has to end after its call was cancelled; then it is abandoned, and the caller goes on."""

MAX_TRACEBACK: Final = 16_000
"""Characters of a traceback in the log; the newest are kept."""

_abandoned: set[asyncio.Task[Any]] = set()
"""Owns the tasks of tools that ignore their cancellation, until they end. The circuit breaker bounds how many begin."""


async def execute(
    tool: Tool, name: str, kwargs: Mapping[str, Any], seconds: float, secrets: Collection[Secret]
) -> tuple[ToolOutcome, int]:
    """Returns the outcome of one attempt and the size of its content in bytes. Raises only if the caller is
    cancelled."""
    if math.isinf(seconds):
        value, error = await _guarded(tool, kwargs)
    else:
        try:
            async with work_time(seconds):
                task = asyncio.create_task(_guarded(tool, kwargs), name=f"tool {name}")
                await asyncio.wait({task})
        except TimeoutError:
            pass
        except asyncio.CancelledError:
            await _stop(task, name)
            raise
        if not task.done():
            await _stop(task, name)
            late = DeadlineExceeded(f"no answer within {round(seconds, 2):g} s", kind=TOOL_TIMEOUT)
            return failed(late, ToolResultStatus.TIMEOUT), 0
        if task.cancelled():
            value, error = None, UnknownFailure(f"tool {name} cancelled its own call", kind=TOOL_CRASH)
        else:
            value, error = task.result()
    if error is not None:
        return _failure(name, error, secrets), 0
    try:
        result, size = _bounded(tool, name, as_result(value), secrets)
    except ArchonError as refused:
        return _failure(name, refused, secrets), 0
    return ToolOutcome(result), size


async def _guarded(tool: Tool, kwargs: Mapping[str, Any]) -> tuple[Any, BaseException | None]:
    try:
        return await tool.execute(**kwargs), None
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a tool may raise anything
        return None, error


async def _stop(task: asyncio.Task[Any], name: str) -> None:
    task.cancel()
    await asyncio.wait({task}, timeout=GRACE)
    if not task.done():
        _log.warning("tool %s ignores that its call was cancelled; it is abandoned", name)
        _abandoned.add(task)
        task.add_done_callback(_abandoned.discard)


def _bounded(tool: Tool, name: str, result: ToolResult, secrets: Collection[Secret]) -> tuple[ToolResult, int]:
    content, metadata = result.content, result.metadata
    if secrets:
        content, metadata = redacted(content, secrets), redacted(metadata, secrets)
    if result.ok:
        if tool.produces:
            check_output(name, tool.produces, content)
        whole = content
        content, size = limited(content, tool.max_output_bytes)
        if isinstance(content, str) and content != whole and size == (tool.max_output_bytes or MAX_OUTPUT_BYTES):
            metadata = {**metadata, CUT: size}
    else:
        content, size = limited(content, MAX_MESSAGE)
    if metadata:
        taken = len(json.dumps(metadata))
        if taken > MAX_METADATA_BYTES:
            _log.warning("tool %s: metadata of %d bytes left out; the limit is %d", name, taken, MAX_METADATA_BYTES)
            metadata = {}
    if content is result.content and metadata is result.metadata:
        return result, size
    message = "" if result.ok else str(content)
    return replace(result, content=content, error_message=message, metadata=metadata), size


def _failure(name: str, error: BaseException, secrets: Collection[Secret]) -> ToolOutcome:
    # The traceback stays here, in the log of the process: results travel.
    outcome = failed(error)
    message = outcome.result.error_message
    stack = "" if isinstance(error, ArchonError) else "".join(traceback.format_exception(error))[-MAX_TRACEBACK:]
    if secrets:
        hidden = redacted(str(error), secrets)
        if hidden != str(error):
            failure = failure_of(error)
            hidden_error = UnknownFailure(hidden, reason=failure.reason, kind=failure.kind)
            message = redacted(message, secrets)
            result = replace(outcome.result, content=message, error_message=message)
            outcome = ToolOutcome(result, hidden_error)
        stack = redacted(stack, secrets)
    _log.warning("tool %s failed: %s%s", name, message, f"\n{stack}" if stack else "")
    return outcome
