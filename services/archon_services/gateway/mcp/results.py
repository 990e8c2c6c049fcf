"""A run as the result of a tool: content in blocks, and structured content if the answer is one JSON object."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any, Final

import mcp_types as types

from archon.json_text import json_object
from archon.types.failure import Failure
from archon.types.part import Part
from archon.types.run import Run
from archon.types.run_answer import RunAnswer
from archon.types.task_state import TaskState

RUN_ID: Final = "dev.archon/run-id"
TRACE_ID: Final = "dev.archon/trace-id"
"""Metadata of a result: the run, and its trace."""

REASON: Final = "dev.archon/reason"
"""Metadata of a failed result: the reason of the error."""

_OF_THE_MESH: Final = frozenset({"UNAVAILABLE", "INTERNAL", "DATA_LOSS", "UNKNOWN"})
"""Codes of failures that are the mesh's own: a task of the protocol fails with them. With any other, a tool was called
and reports an error."""


def uri_of(run_id: str) -> str:
    """Returns the URI of a run."""
    return f"archon://runs/{run_id}"


def answer_uri(run_id: str, number: int) -> str:
    """Returns the URI of an answer of a run, counted from 1."""
    return f"{uri_of(run_id)}/answers/{number}"


def is_failure_of_mesh(run: Run) -> bool:
    """Whether a run has failed for a reason of the mesh, so that there is no result of a tool."""
    return run.state is TaskState.FAILED and run.failure is not None and run.failure.code in _OF_THE_MESH


def failure_text(failure: Failure | None) -> str:
    """Returns the text of a failure."""
    if failure is None:
        return "the run has failed"
    return failure.message or failure.reason or failure.kind or "the run has failed"


def result_of(run: Run) -> types.CallToolResult:
    """Returns the result of a run that has ended."""
    meta: dict[str, Any] = {RUN_ID: run.run_id}
    if run.trace_id:
        meta[TRACE_ID] = run.trace_id
    if run.state is not TaskState.COMPLETED:
        if run.failure is not None and run.failure.reason:
            meta[REASON] = run.failure.reason
        text = failure_text(run.failure) if run.state is not TaskState.CANCELED else "the run was cancelled"
        return types.CallToolResult(content=[types.TextContent(text=text)], is_error=True, _meta=meta)
    answers = run.answers
    if not answers and run.truncated:
        return note(f"the answers of run {run.run_id} are too large for one message: watch its events", run.run_id)
    several = len(answers) > 1
    content = [
        block for number, answer in enumerate(answers, 1) for block in _blocks(run.run_id, number, answer, several)
    ]
    structured = _structured(answers[0]) if len(answers) == 1 else None
    return types.CallToolResult(content=content, structured_content=structured, _meta=meta)


def note(text: str, run_id: str, *, is_error: bool = True) -> types.CallToolResult:
    """Returns a result about a run that goes on."""
    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=is_error, _meta={RUN_ID: run_id})


def _blocks(run_id: str, number: int, answer: RunAnswer, named: bool) -> Iterator[types.ContentBlock]:
    if named:
        yield types.TextContent(text=f"{answer.role}:")
    for part in answer.parts:
        yield block_of(answer_uri(run_id, number), part)


def block_of(uri: str, part: Part) -> types.ContentBlock:
    """Returns a part of an answer as a block of content. `uri` is the answer's."""
    if part.url is not None:
        return types.ResourceLink(name=part.filename or part.url[-60:], uri=part.url, mime_type=part.media_type or None)
    if part.raw is None:
        return types.TextContent(text=part.text if part.text is not None else part.data_json or "")
    data = base64.b64encode(part.raw).decode()
    if part.media_type.startswith("image/"):
        return types.ImageContent(data=data, mime_type=part.media_type)
    if part.media_type.startswith("audio/"):
        return types.AudioContent(data=data, mime_type=part.media_type)
    return types.EmbeddedResource(resource=contents_of(uri, part))


def contents_of(uri: str, part: Part) -> types.TextResourceContents | types.BlobResourceContents:
    """Returns a part of an answer as the content of a resource."""
    if part.raw is None:
        kind = part.media_type or ("application/json" if part.data_json is not None else "text/plain")
        text = part.text if part.text is not None else part.data_json if part.data_json is not None else part.url or ""
        return types.TextResourceContents(uri=uri, mime_type=kind, text=text)
    kind = part.media_type or "application/octet-stream"
    if kind.startswith("text/"):
        try:
            return types.TextResourceContents(uri=uri, mime_type=kind, text=part.raw.decode())
        except UnicodeDecodeError:
            pass
    return types.BlobResourceContents(uri=uri, mime_type=kind, blob=base64.b64encode(part.raw).decode())


def _structured(answer: RunAnswer) -> dict[str, Any] | None:
    """Returns the answer if it is one JSON object, whether a role has said so, or written it as text."""
    pieces = [part.data_json if part.data_json is not None else part.text for part in answer.parts if part.raw is None]
    if len(pieces) != 1 or pieces[0] is None or not pieces[0].lstrip().startswith("{"):
        return None
    found = json_object(pieces[0])
    return dict(found) if found is not None else None
