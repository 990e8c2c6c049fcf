"""`ask_person` within a request of an MCP client: the question becomes a form for the person behind the client."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from archon.errors import FailedPrecondition, InvalidArgument
from archon_mesh.core.people import Decision, QuestionKind
from archon_mesh.tools.mcp.forms import is_field, is_form, mismatch
from archon_mesh.tools.mcp.serving.client import ClientCall
from archon_mesh.tools.mcp.serving.client_requests import FormAnswer, FormRequest
from archon_mesh.tools.people.ask import FunctionDesk, PersonAnswer, PersonQuestion
from archon_mesh.tools.result import ToolResult

_DECISIONS: Final = {"approve": Decision.APPROVE, "reject": Decision.REJECT, "modify": Decision.MODIFY}
_APPROVAL: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "decision": {"type": "string", "enum": list(_DECISIONS)},
        "text": {"type": "string", "description": "the reason, or the action in its place"},
    },
    "required": ["decision"],
}


class ClientDesk:
    """The way to the person behind an MCP client. The person has no identity, so that it can be no named approver."""

    def __init__(self, call: ClientCall) -> None:
        self._call = call
        self._count = 0

    async def ask(self, question: PersonQuestion, call: int | None) -> PersonAnswer:
        """Returns the answer. Raises FailedPrecondition if this person may not answer, declines, or cannot be asked
        from here, and QuestionTimedOut."""
        if question.terms.approvers:
            raise FailedPrecondition("the person behind an MCP client has no identity, and can be no approver")
        self._count += 1
        name = f"question-{self._count}"

        async def answer(asked: PersonQuestion) -> PersonAnswer:
            form = form_of(asked)
            given: FormAnswer = (await self._call.ask({name: form}))[name]
            return answer_from(asked, given)

        return await FunctionDesk(answer).ask(question, call)

    def begin_calls(self, *, resumed: bool) -> Mapping[int, ToolResult]:
        """Returns no results: a client calls one tool at a time."""
        return {}


def form_of(question: PersonQuestion) -> FormRequest:
    """Returns the form for a question: of its schema if that is one of a form, else with the field `answer`."""
    if question.kind is QuestionKind.APPROVAL:
        return FormRequest(question.text, _APPROVAL)
    schema = question.schema
    if schema is not None and is_form(schema):
        return FormRequest(question.text, schema)
    if schema is None:
        field: Mapping[str, Any] = {"type": "string"}
    elif is_field(schema):
        field = schema
    else:
        field = {"type": "string", "description": f"JSON that matches {json.dumps(dict(schema))}"}
    return FormRequest(question.text, {"type": "object", "properties": {"answer": field}, "required": ["answer"]})


def answer_from(question: PersonQuestion, given: FormAnswer) -> PersonAnswer:
    """Returns the answer that a form gives. Raises FailedPrecondition if the person has declined a question that is no
    approval, or dismissed it, and InvalidArgument if the answer does not match the question's schema."""
    if given.action != "accept":
        if question.kind is QuestionKind.APPROVAL and given.action == "decline":
            return PersonAnswer("", Decision.REJECT)
        raise FailedPrecondition(f"the person did not answer: {given.action}")
    if question.kind is QuestionKind.APPROVAL:
        return PersonAnswer(str(given.content.get("text") or ""), _DECISIONS[given.content["decision"]])
    if question.schema is not None and is_form(question.schema):
        return PersonAnswer(_json(given.content))
    value = given.content["answer"]
    if question.schema is not None and not is_field(question.schema):
        _check_json(question.schema, value)
    return PersonAnswer(value if isinstance(value, str) else _json(value))


def _check_json(schema: Mapping[str, Any], text: str) -> None:
    """Raises InvalidArgument unless a text is JSON that matches the schema."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise InvalidArgument(f"the answer is not JSON: {error}") from None
    if (problem := mismatch(schema, value)) is not None:
        raise InvalidArgument(f"the answer does not match the schema: {problem}")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
