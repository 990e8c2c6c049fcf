"""Runs as resources: `archon://runs/RUN` is a run as JSON, `archon://runs/RUN/answers/NUMBER` an answer."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from archon.errors import RunExpired, UnknownRun
from archon.plain_text import cut
from archon.types.part import Part
from archon.types.run import Run
from archon.wire import JSON_TYPE
from archon_mesh.tools.mcp.serving.handlers import RESOURCE_NOT_FOUND
from archon_services.gateway.mcp.parts import RoomParts
from archon_services.gateway.mcp.results import answer_uri, contents_of, uri_of

TEMPLATE: Final = "archon://runs/{run_id}"
ANSWER_TEMPLATE: Final = "archon://runs/{run_id}/answers/{number}"

PAGE: Final = 100
MAX_COMPLETIONS: Final = 100
"""Runs of a page of the list, and completions of a run's id."""

MAX_TITLE: Final = 80
"""Characters of the goal that stand for a run in a list."""

_URI: Final = re.compile(r"archon://runs/([A-Za-z0-9_.:-]{1,200})(?:/answers/([1-9][0-9]{0,4}))?")


def run_id_of(uri: str) -> str:
    """Returns the run that the URI of a resource is about; empty if it is no such URI."""
    found = _URI.fullmatch(uri)
    return found[1] if found is not None else ""


class Resources:
    """Serves the runs that the caller of a request may see."""

    def __init__(self, parts: RoomParts) -> None:
        self._parts = parts

    def add_to(self, server: Server[Any]) -> None:
        """Adds the handlers to a server."""
        server.add_request_handler("resources/list", types.PaginatedRequestParams, self._list)
        server.add_request_handler("resources/templates/list", types.PaginatedRequestParams, self._templates)
        server.add_request_handler("resources/read", types.ReadResourceRequestParams, self._read)
        server.add_request_handler("completion/complete", types.CompleteRequestParams, self._complete)

    async def _list(
        self, context: ServerRequestContext[Any], params: types.PaginatedRequestParams
    ) -> types.ListResourcesResult:
        runs, following = await self._parts.access.runs_page(size=PAGE, token=params.cursor or "", session_id="")
        listed = [
            types.Resource(
                uri=uri_of(run.run_id),
                name=run.run_id,
                title=_title(run) or None,
                description=f"A run that is {run.state.name.lower()}.",
                mime_type=JSON_TYPE,
            )
            for run in runs
        ]
        return types.ListResourcesResult(resources=listed, next_cursor=following or None)

    async def _templates(
        self, context: ServerRequestContext[Any], params: types.PaginatedRequestParams
    ) -> types.ListResourceTemplatesResult:
        run = types.ResourceTemplate(
            uri_template=TEMPLATE, name="run", description="A run with its answers.", mime_type=JSON_TYPE
        )
        answer = types.ResourceTemplate(
            uri_template=ANSWER_TEMPLATE,
            name="answer",
            description="The content of an answer of a run, counted from 1.",
        )
        return types.ListResourceTemplatesResult(resource_templates=[run, answer])

    async def _read(
        self, context: ServerRequestContext[Any], params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        found = _URI.fullmatch(params.uri)
        try:
            run = await self._parts.access.runs.get(found[1]) if found is not None else None
        except (UnknownRun, RunExpired):
            run = None
        if found is None or run is None or (found[2] and int(found[2]) > len(run.answers)):
            is_modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
            code = INVALID_PARAMS if is_modern else RESOURCE_NOT_FOUND
            raise MCPError(code, "Resource not found", {"uri": params.uri[:500]})
        if found[2]:
            parts = run.answers[int(found[2]) - 1].parts
            return types.ReadResourceResult(contents=[contents_of(params.uri, part) for part in parts])
        text = json.dumps(summary_of(run), ensure_ascii=False)
        content = types.TextResourceContents(uri=params.uri, mime_type=JSON_TYPE, text=text)
        return types.ReadResourceResult(contents=[content])

    async def _complete(
        self, context: ServerRequestContext[Any], params: types.CompleteRequestParams
    ) -> types.CompleteResult:
        values: list[str] = []
        uri = params.ref.uri if isinstance(params.ref, types.ResourceTemplateReference) else ""
        if uri in (TEMPLATE, ANSWER_TEMPLATE) and params.argument.name == "run_id":
            runs, _ = await self._parts.access.runs_page(size=1_000, token="", session_id="")
            values = [run.run_id for run in runs if run.run_id.startswith(params.argument.value)]
        shown = types.Completion(values=values[:MAX_COMPLETIONS], has_more=len(values) > MAX_COMPLETIONS)
        return types.CompleteResult(completion=shown)


def summary_of(run: Run) -> dict[str, Any]:
    """Returns a run as JSON: its state, goal, answers, open questions and failure."""
    return {
        "run_id": run.run_id,
        "state": run.state.name.lower(),
        "goal": _text(run.goal),
        "answers": [
            {"role": answer.role, "text": answer.text, "uri": answer_uri(run.run_id, number)}
            for number, answer in enumerate(run.answers, 1)
        ],
        "questions": [{"id": each.input_id, "role": each.role, "text": each.text} for each in run.questions],
        "failure": None if run.failure is None else {"reason": run.failure.reason, "message": run.failure.message},
    }


def _title(run: Run) -> str:
    return cut(" ".join(_text(run.goal).split()), MAX_TITLE)


def _text(parts: tuple[Part, ...]) -> str:
    return "\n\n".join(text for part in parts if (text := part.text or part.data_json or part.filename))
