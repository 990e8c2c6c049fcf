"""Paths of the OpenAPI document that no RPC has: links to runs, reports, and trials of prompts."""

from __future__ import annotations

from typing import Any, Final

from archon_services.gateway.reports.prompts import WishBody
from archon_services.gateway.shares.room import NewLink

Schema = dict[str, Any]

_RUN: Final[Schema] = {
    "name": "runId",
    "in": "path",
    "required": True,
    "schema": {"type": "string"},
    "description": "The run.",
}
_NUMBER: Final[Schema] = {
    "name": "number",
    "in": "path",
    "required": True,
    "schema": {"type": "integer", "minimum": 1},
    "description": "The number of the model call in the run.",
}
_LINK: Final[Schema] = {
    "type": "object",
    "required": ["path", "by", "created", "expires"],
    "properties": {
        "path": {"type": "string", "description": "The path of the link, which opens it without credentials."},
        "by": {"type": "string", "description": "The identity that has made it."},
        "created": {"type": "integer", "description": "Seconds since the epoch."},
        "expires": {"type": "integer", "description": "Seconds since the epoch."},
    },
}
_OBJECT: Final[Schema] = {"type": "object"}


def room_paths() -> dict[str, Schema]:
    """Returns the paths with their operations."""
    links = {"type": "object", "required": ["links"], "properties": {"links": {"type": "array", "items": _LINK}}}
    reports = "/reports/runs/{runId}"
    return {
        "/share-links": {
            "get": _operation(
                "listShareLinks", "Links", "Lists the valid links of a run, the newest first.", links, [_query("run")]
            ),
            "post": _operation(
                "makeShareLink", "Links", "Makes a read-only link to a run.", _LINK, body=_schema(NewLink), status="201"
            ),
        },
        "/shared/{link}": {
            "delete": _operation(
                "revokeShareLink",
                "Links",
                "Revokes a link.",
                _OBJECT,
                [{"name": "link", "in": "path", "required": True, "schema": {"type": "string"}}],
            )
        },
        f"{reports}/sources": {
            "get": _operation(
                "getSources", "Reports", "Shows the sources of an answer.", _OBJECT, [_RUN, _query("task")]
            )
        },
        f"{reports}/time": {"get": _operation("getTime", "Reports", "Shows where the time went.", _OBJECT, [_RUN])},
        f"{reports}/difference": {
            "get": _operation(
                "getDifference", "Reports", "Compares another run with this one.", _OBJECT, [_RUN, _query("other")]
            )
        },
        f"{reports}/prompts": {
            "get": _operation("listPrompts", "Reports", "Lists the recorded model calls.", _OBJECT, [_RUN])
        },
        f"{reports}/prompts/{{number}}": {
            "get": _operation("getPrompt", "Reports", "Shows a recorded model call.", _OBJECT, [_RUN, _NUMBER]),
            "post": _operation(
                "tryPrompt",
                "Reports",
                "Sends a changed prompt to a model of the gateway, and compares the answers.",
                _OBJECT,
                [_RUN, _NUMBER],
                body=_schema(WishBody),
            ),
        },
        "/reports/trials": {
            "get": _operation("listTrials", "Reports", "Lists the records of the trials of prompts.", _OBJECT)
        },
    }


def _operation(
    name: str, tag: str, summary: str, answer: Schema, parameters: list[Schema] | None = None, **more: Any
) -> Schema:
    operation: Schema = {"operationId": name, "tags": [tag], "summary": summary}
    if parameters:
        operation["parameters"] = parameters
    if (body := more.get("body")) is not None:
        operation["requestBody"] = {"content": {"application/json": {"schema": body}}}
    operation["responses"] = {
        more.get("status", "200"): {
            "description": "The response.",
            "content": {"application/json": {"schema": answer}},
        },
        "default": {"$ref": "#/components/responses/error"},
    }
    return operation


def _query(name: str) -> Schema:
    return {"name": name, "in": "query", "schema": {"type": "string"}}


def _schema(model: Any) -> Schema:
    schema: Schema = model.model_json_schema()
    return schema
