"""The page on which a person gives a secret answer, so that neither the MCP client nor its model sees it. It belongs to
the identity whose client was sent there: no caller can have another person fill it in."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from contextvars import ContextVar
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qs, quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from archon.errors import InvalidArgument, LinkRefused, PermissionDenied, Unauthenticated
from archon.secret_answers import is_secret, seal
from archon.types.part import Part
from archon.types.run_question import RunQuestion
from archon_services.common.sealing import Sealer
from archon_services.gateway.mesh_access import MeshAccess

PATH: Final = "/mcp/secrets"
LASTS: Final = 24 * 3600
"""Seconds for which an address can be used."""

_PURPOSE: Final = "mcp-secret"
_PAGE: Final = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Archon</title></head>
<body><main><h1>{title}</h1><p>{text}</p>{form}</main></body></html>
"""
_FORM: Final = """<form method="post"><label>Answer
<input type="password" name="answer" required autocomplete="off" autofocus></label> <button>Send</button></form>"""

_base: ContextVar[str] = ContextVar("mcp_base_url", default="")


def enter_base(url: str) -> None:
    """Says by which URL the gateway is reached, for the rest of the current asyncio task."""
    _base.set(url)


class SecretPages:
    """The addresses of secret questions, and their pages."""

    def __init__(self, access: MeshAccess, sealer: Sealer) -> None:
        self._access, self._sealer = access, sealer

    def of_secret(self, run_id: str, input_id: str) -> str:
        """Returns the URL of a question for the caller that is being served."""
        sealed = self._sealer.seal(_PURPOSE, json.dumps([*self._access.visitor.key, run_id, input_id]))
        return f"{_base.get()}{PATH}/{sealed}"

    def routes(self) -> Sequence[BaseRoute]:
        """Returns the route of the pages."""
        return [Route(f"{PATH}/{{sealed}}", self._page, methods=["GET", "POST"])]

    async def _page(self, request: Request) -> Response:
        try:
            self._access.enter(request.headers)
        except Unauthenticated:
            if request.method != "GET":
                raise
            return RedirectResponse(f"/login?next={quote(request.url.path)}", HTTPStatus.SEE_OTHER)
        question = await self._question(request.path_params["sealed"])
        if question is None:
            return _html("Done", "The question is not open any more. You can close this page.")
        if request.method == "GET":
            return _html(f"{question.role} asks", question.text, _FORM)
        answers = parse_qs((await request.body()).decode(), keep_blank_values=True).get("answer", [])
        if len(answers) != 1:
            raise InvalidArgument("the form has one answer")
        sealed = Part(text=seal(question.schema_json, answers[0]))
        await self._access.runs.respond(question.run_id, question.input_id, [sealed])
        return _html("Thank you", "The answer was encrypted and sent. You can close this page.")

    async def _question(self, sealed: str) -> RunQuestion | None:
        text = self._sealer.open(_PURPOSE, sealed, seconds=LASTS)
        if text is None:
            raise LinkRefused("the address of the question is not valid, or too old")
        tenant, identity, run_id, input_id = json.loads(text)
        if (tenant, identity) != self._access.visitor.key:
            raise PermissionDenied("the question was asked to another person: log in as the user of the MCP client")
        run = await self._access.runs.get(run_id)
        return next((each for each in run.questions if each.input_id == input_id and is_secret(each.schema_json)), None)


def _html(title: str, text: str, form: str = "") -> Response:
    page = _PAGE.format(title=html.escape(title), text=html.escape(text), form=form)
    return Response(page, media_type="text/html")
