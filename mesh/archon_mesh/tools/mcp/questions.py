"""Questions that an MCP server asks the person behind the agent while one of its tools is called (elicitation).

The question goes the way of `ask_person`: in a task of the mesh it ends the attempt, and the tool is called again when
there is an answer. A server is a stranger, so that the question says who asks.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from archon.errors import FailedPrecondition
from archon.json_text import json_or
from archon_mesh.core.people import Decision, QuestionKind
from archon_mesh.tools.mcp.forms import is_form, mismatch
from archon_mesh.tools.mcp.listing import schema_refusal, without_patterns
from archon_mesh.tools.people.ask import PersonAnswer, PersonQuestion, QuestionAsked, ask_person

if TYPE_CHECKING:
    import mcp_types as types

_log = logging.getLogger(__name__)

MAX_QUESTIONS: Final = 10
"""Questions of a server during a call."""

MAX_QUESTION: Final = 4_000
"""Characters of a question; longer ones are cut."""

_Outcome = PersonAnswer | Exception | QuestionAsked
"""An answer, or the exception of asking."""


@dataclass(slots=True, eq=False)
class _OpenCall:
    """A call of a tool, with the context variables of its caller. `ending` is the exception that ends the call in place
    of its result."""

    variables: contextvars.Context
    asked: int = 0
    tasks: set[asyncio.Task[_Outcome]] = field(default_factory=set)
    ending: BaseException | None = None


_open_call: ContextVar[_OpenCall | None] = ContextVar("archon_mcp_open_call", default=None)


class ServerQuestions:
    """The questions that one MCP server asks a person while its tools are called."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._calls: list[_OpenCall] = []

    @contextmanager
    def during_call(self) -> Iterator[None]:
        """Takes questions for the call of a tool within the block. Raises at its end the exceptions of asking:
        QuestionAsked, and errors such as QuestionTimedOut, but not that no person can be asked."""
        call = _OpenCall(contextvars.copy_context())
        token = _open_call.set(call)
        self._calls.append(call)
        try:
            yield
        except Exception:
            if call.ending is None:
                raise
        finally:
            self._calls.remove(call)
            _open_call.reset(token)
            for task in call.tasks:
                task.cancel()
        if call.ending is not None:
            raise call.ending

    async def answer(self, context: Any, params: types.ElicitRequestParams) -> types.ElicitResult | types.ErrorData:
        """Asks the person and returns the answer for the server; an error if no person can be asked."""
        import mcp_types as types

        call = self._asking()
        if call is None:
            return _refused("it cannot be told which call asks")
        if not isinstance(params, types.ElicitRequestFormParams) or not is_form(params.requested_schema):
            return _refused("only forms can be filled in here")
        if (why := schema_refusal(params.requested_schema)) is not None:
            return _refused(why)
        call.asked += 1
        if call.asked > MAX_QUESTIONS:
            return _refused(f"more than {MAX_QUESTIONS} questions during a call")
        text = f"The MCP server {self._server} asks: {params.message[:MAX_QUESTION]}"
        schema = params.requested_schema
        kind, answer_schema = (QuestionKind.INPUT, schema) if schema["properties"] else (QuestionKind.APPROVAL, None)
        outcome = await _ask(call, PersonQuestion(text, kind, answer_schema))
        if isinstance(outcome, PersonAnswer):
            return _result(outcome, schema)
        if outcome is not None and not isinstance(outcome, FailedPrecondition):
            call.ending = outcome
        return _refused(f"no person has answered: {outcome or 'the call has ended'}")

    def _asking(self) -> _OpenCall | None:
        """Returns the call that asks. A request of the server does not say that in older versions of the protocol:
        there only a single call can ask."""
        call = _open_call.get()
        if call is not None and call in self._calls:
            return call
        return self._calls[0] if len(self._calls) == 1 else None


async def _ask(call: _OpenCall, question: PersonQuestion) -> _Outcome | None:
    """Asks on behalf of a call, in the context of its caller. Returns None if the call has ended before there is an
    outcome."""

    async def ask() -> _Outcome:
        try:
            return await ask_person(question)
        except (Exception, QuestionAsked) as ending:  # noqa: BLE001 - raised again by the call
            return ending

    task = asyncio.get_running_loop().create_task(ask(), name="ask a person", context=call.variables.copy())
    call.tasks.add(task)
    try:
        await asyncio.wait({task})
    finally:
        task.cancel()
        call.tasks.discard(task)
    return None if task.cancelled() else task.result()


def _result(answer: PersonAnswer, schema: Mapping[str, Any]) -> types.ElicitResult:
    """Returns a person's answer as the server gets it; a form without fields is accepted or declined."""
    import mcp_types as types

    if not schema["properties"]:
        actions: Mapping[Decision, Literal["accept", "decline"]]
        actions = {Decision.APPROVE: "accept", Decision.REJECT: "decline"}
        return types.ElicitResult(action=actions.get(answer.decision, "cancel"))
    content = _content(answer.text, schema)
    if content is None:
        return types.ElicitResult(action="cancel")
    return types.ElicitResult(action="accept", content=content)


def _content(text: str, schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Returns the values of a form from a person's answer, a JSON object, or the value of its only field. Fields that
    are not answered have their defaults. None if it does not match the schema."""
    fields: Mapping[str, Mapping[str, Any]] = schema["properties"]
    value = json_or(text, text)
    if not isinstance(value, dict):
        if len(fields) != 1:
            return None
        ((name, only),) = fields.items()
        value = {name: text if only["type"] == "string" else value}
    content = {name: each["default"] for name, each in fields.items() if "default" in each} | value
    return content if mismatch(without_patterns(schema), content) is None else None


def _refused(why: str) -> types.ErrorData:
    import mcp_types as types

    _log.info("a question of an MCP server is refused: %s", why)
    return types.ErrorData(code=types.INVALID_REQUEST, message=why)
