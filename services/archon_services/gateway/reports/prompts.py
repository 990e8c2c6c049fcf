"""The recorded model calls of a run, and trials of their prompts, as `archon playground` makes them."""

from __future__ import annotations

import asyncio
import secrets
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from archon.errors import ArchonError, InvalidArgument, NotFound
from archon.plain_text import duration
from archon.types import RunRecord
from archon_mesh.core.messages import ChatMessage
from archon_mesh.playground import Played, RecordedCall, recorded_calls
from archon_mesh.playground.played import answer_text
from archon_mesh.playground.recorded_call import readable_reply
from archon_services.common.sealing import Sealer
from archon_services.gateway.callers import ORCHESTRATOR, Callers
from archon_services.gateway.reports.documents import document, wants_document
from archon_services.gateway.reports.form_tokens import FIELD, FormTokens
from archon_services.gateway.reports.reading import LIST_RECORDS, RunReader
from archon_services.gateway.reports.trial_ledger import TrialLedger
from archon_services.gateway.reports.trials import ABSENT, MAX_REPEAT, Trials, Wish
from archon_services.gateway.room import Gateway
from archon_services.reports.run_diff import shortened
from archon_services.reports.texts import cost_text

TRY: Final = f"/{ORCHESTRATOR}/SubmitRun"
"""The RPC whose row of the policy says who may spend money on models."""

LIST_ENTRIES: Final = "/archon.api.audit.v1.AuditService/ListEntries"
"""The RPC whose row of the policy says who may read records of trials."""

MAX_CALLS: Final = 2_000
"""Model calls of a run that are listed."""

MAX_EDITED: Final = 100_000
"""Characters of a message that a browser can change."""

MAX_FIELDS: Final = 1_000
MAX_ID: Final = 64
_FORM: Final = "application/x-www-form-urlencoded"


class WishBody(BaseModel):
    """The body of a trial by a program. `messages` are new texts by the numbers of messages, from 1."""

    model_config = ConfigDict(extra="forbid")

    id: str = Field(default="", max_length=MAX_ID)
    messages: dict[int, str] = {}
    model: str = ""
    temperature: float | None = None
    maxTokens: int | None = None
    repeat: int = 1


class Prompts:
    """The handlers of recorded calls and of trials."""

    def __init__(
        self, gateway: Gateway, reader: RunReader, callers: Callers, trials: Trials, ledger: TrialLedger
    ) -> None:
        self._visitors, self._reader, self._callers = gateway.visitors, reader, callers
        self._trials, self._ledger = trials, ledger
        self._forms = FormTokens(Sealer.from_file(Path(gateway.settings.session_key)))

    async def listed(self, request: Request) -> Response:
        """Answers with the model calls of a run, in their order. Raises UnknownRun, PermissionDenied."""
        run_id = request.path_params["run_id"]
        async with self._reader.turn(request):
            calls = await self._calls(request)
        rows = [_row(call, number) for number, call in enumerate(calls[:MAX_CALLS], 1)]
        if not wants_document(request):
            return JSONResponse({"run_id": run_id, "calls": rows})
        values = {"title": "Recorded prompts", "run_id": run_id, "view": "prompts", "calls": rows}
        return await document(request, "prompts.html", values)

    async def show(self, request: Request) -> Response:
        """Answers with one call: its messages, its answer, and a form for a trial."""
        async with self._reader.turn(request):
            call = await self._call(request)
            return await self._shown(request, call, {}, None, None)

    async def attempt(self, request: Request) -> Response:
        """Makes a trial. A browser gets the document of the call with the answers, or with the error."""
        visitor = self._visitors.of(request.headers, TRY)
        async with self._reader.turn(request):
            call = await self._call(request)
        wish, token = await _wish(request, call)
        played, error = None, None
        try:
            if token is not None:
                self._forms.check(visitor.caller, request.url.path, token)
            played = await self._trials.make(visitor.caller, call, wish)
        except ArchonError as raised:
            if not wants_document(request):
                raise
            error = raised
        if not wants_document(request):
            assert played is not None
            return JSONResponse({"id": wish.id, **played.document()})
        return await self._shown(request, call, wish.texts, played, error, wish)

    async def records(self, request: Request) -> Response:
        """Answers with the records of the trials of the caller's tenant, for those who may read the audit log."""
        visitor = self._visitors.of(request.headers, LIST_ENTRIES)
        return JSONResponse({"trials": await self._ledger.records(visitor.caller.tenant)})

    async def _calls(self, request: Request) -> list[RecordedCall]:
        self._callers.allowed(request.headers, LIST_RECORDS)
        run_id = request.path_params["run_id"]
        records: list[RunRecord] = []
        async for record in self._callers.runs.records(run_id):
            if record.kind == "model":
                records.append(record)
                if len(records) > MAX_CALLS:
                    break
        return await asyncio.to_thread(recorded_calls, records)

    async def _call(self, request: Request) -> RecordedCall:
        calls = await self._calls(request)
        number: int = request.path_params["number"]
        if not 1 <= number <= len(calls):
            raise NotFound(f"the run has {len(calls)} recorded model calls: there is no call {number}")
        return calls[number - 1]

    async def _shown(
        self,
        request: Request,
        call: RecordedCall,
        texts: Mapping[int, str],
        played: Played | None,
        error: ArchonError | None,
        wish: Wish | None = None,
    ) -> Response:
        if not wants_document(request):
            return JSONResponse(_document(call))
        caller = self._callers.visitor.caller
        messages, problem = _messages(call)
        may_try = self._visitors.may(caller, TRY) and not problem
        left = ""
        if may_try and self._trials.models:
            try:
                left = f"{await self._ledger.left(caller):.2f}"
            except ArchonError as raised:
                problem, may_try = str(raised), False
        reply = readable_reply(call)
        number = request.path_params["number"]
        values = {
            "title": call.label,
            "run_id": request.path_params["run_id"],
            "view": "prompts",
            "call": _row(call, number),
            "task": call.task_id,
            "messages": messages,
            "texts": texts,
            "problem": problem,
            "answer": answer_text(reply) if reply is not None else "",
            "failure": call.failure,
            "may_try": may_try,
            "absent": "" if self._trials.models else ABSENT,
            "command": shlex.join(["archon", "playground", call.run_id, call.task_id, str(call.number), "--edit"]),
            "models": self._trials.models,
            "model": (wish.model if wish is not None else "") or self._trials.default(call),
            "temperature": "" if wish is None or wish.temperature is None else f"{wish.temperature:g}",
            "repeat": wish.repeat if wish is not None else 1,
            "most": MAX_REPEAT,
            "max_edited": MAX_EDITED,
            "id": secrets.token_hex(8),
            "form_field": FIELD,
            "form_token": self._forms.make(caller, request.url.path),
            "usd": f"{self._trials.usd:.2f}",
            "left": left,
            "seconds": f"{self._trials.seconds:g}",
            "error": error,
            "played": await asyncio.to_thread(_played, played) if played is not None else None,
        }
        return await document(request, "prompt.html", values)


async def _wish(request: Request, call: RecordedCall) -> tuple[Wish, str | None]:
    """Returns the trial of a form, with the form's token, or of JSON. Raises InvalidArgument."""
    body = await request.body()
    try:
        if request.headers.get("content-type", "").startswith(_FORM):
            return _form_wish(body, call)
        wanted = WishBody.model_validate_json(body or b"{}")
    except ValidationError as error:
        [fault, *_] = error.errors(include_url=False, include_input=False)
        raise InvalidArgument(f"{'.'.join(map(str, fault['loc'])) or 'the body'}: {fault['msg']}") from None
    except ValueError:
        raise InvalidArgument("the form of the trial is invalid") from None
    wish_id = wanted.id or secrets.token_hex(8)
    return Wish(wish_id, wanted.messages, wanted.model, wanted.temperature, wanted.maxTokens, wanted.repeat), None


def _form_wish(body: bytes, call: RecordedCall) -> tuple[Wish, str]:
    """Returns the trial of a form and its token: texts that a browser has only passed on are no changes. Raises
    ValueError."""
    fields = {
        key: values[-1]
        for key, values in parse_qs(body.decode(), keep_blank_values=True, max_num_fields=MAX_FIELDS).items()
    }
    texts = {}
    for number, message in enumerate(call.request.messages, 1):
        text = fields.get(f"message-{number}", "").replace("\r\n", "\n")
        if f"message-{number}" in fields and text != _as_sent(message.content):
            texts[number] = text
    temperature = fields.get("temperature", "").strip()
    wish = Wish(
        fields.get("id", "")[:MAX_ID] or secrets.token_hex(8),
        texts,
        fields.get("model", ""),
        float(temperature) if temperature else None,
        None,
        int(fields.get("repeat", "") or 1),
    )
    return wish, fields.get(FIELD, "")


def _as_sent(text: str) -> str:
    """Returns a text as a browser sends it that was given it in a form."""
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd")


def _messages(call: RecordedCall) -> tuple[list[dict[str, Any]], str]:
    """Returns the messages of a call, and why they cannot be sent; empty if they can."""
    try:
        messages = call.request.messages
    except ArchonError as error:
        return [], str(error)
    origins = call.data.get("origins") or []
    return [_message(message, origins[at] if at < len(origins) else None) for at, message in enumerate(messages)], ""


def _message(message: ChatMessage, origin: Any) -> dict[str, Any]:
    facts = dict(origin) if isinstance(origin, dict) else {}
    words = [str(facts.pop("kind", "")).replace("_", " "), *(str(fact) for fact in facts.values() if fact)]
    calls = [f"calls {call.name} {call.arguments_json}" for call in message.tool_calls]
    return {"role": message.role, "origin": " ".join(words).strip(), "text": message.content, "calls": calls}


def _row(call: RecordedCall, number: int) -> dict[str, Any]:
    usage = call.record.usage
    return {
        "number": number,
        "label": call.label,
        "role": call.role,
        "task_id": call.task_id,
        "call": call.number,
        "model": call.model,
        "seconds": call.record.duration,
        "input_tokens": usage.input_tokens,
        "cached_input_tokens": usage.cached_input_tokens,
        "output_tokens": usage.output_tokens,
        "cost_micro_usd": usage.cost_micro_usd,
        "failure": call.failure,
    }


def _document(call: RecordedCall) -> dict[str, Any]:
    messages, problem = _messages(call)
    reply = readable_reply(call)
    answer = answer_text(reply) if reply is not None else None
    return {"label": call.label, "messages": messages, "unknown": problem, "answer": answer, "request": dict(call.data)}


def _played(played: Played) -> dict[str, Any]:
    """Returns the answers for a document: changes, measures and differences."""
    rows = []
    for trial in played.trials:
        pieces = played.difference(trial)
        usage = trial.usage
        rows.append(
            {
                "error": trial.error,
                "text": trial.text,
                "pieces": shortened(pieces) if pieces is not None else None,
                "words": len(trial.text.split()),
                "input": usage.input_tokens,
                "output": usage.output_tokens,
                "cost": cost_text(usage.cost_micro_usd) or "$0",
                "time": duration(trial.seconds),
            }
        )
    return {
        "model": played.variant.model,
        "changes": [(change.place, shortened(change.pieces)) for change in played.variant.changes()],
        "trials": rows,
        "stopped": played.stopped,
        "priced": played.has_price,
    }
