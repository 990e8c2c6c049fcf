"""Questions of runs to people as elicitations: a form by the schema of the answer, or for a secret an address of the
gateway, so that no client sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import mcp_types as types

from archon.client import Client
from archon.errors import FailedPrecondition, InvalidArgument
from archon.json_text import json_object
from archon.secret_answers import is_secret
from archon.types.run import Run
from archon.types.run_question import RunQuestion
from archon_mesh.core.people import Decision, QuestionKind
from archon_mesh.tools.mcp.serving.client_requests import FormAnswer, decoded, encoded
from archon_mesh.tools.mcp.serving.person import answer_from, form_of
from archon_mesh.tools.people.ask import PersonQuestion

MAX_SUBJECT: Final = 4_000
"""Characters of the subject of an approval that are shown."""

_DECISIONS: Final = {Decision.APPROVE: "approve", Decision.REJECT: "reject", Decision.MODIFY: "modify"}


class Addresses(Protocol):
    """Where a person gives a secret answer."""

    def of_secret(self, run_id: str, input_id: str) -> str:
        """Returns the URL for the caller that is being served."""
        ...


@dataclass(frozen=True, slots=True)
class Asking:
    """The ways in which a client can ask its person."""

    form: bool = False
    url: bool = False

    @classmethod
    def of(cls, capabilities: types.ClientCapabilities | None) -> Asking:
        """Returns the ways that a client has declared. Without any mode, elicitation means forms."""
        offered = capabilities.elicitation if capabilities is not None else None
        if offered is None:
            return cls()
        return cls(offered.form is not None or offered.url is None, offered.url is not None)

    def can(self, question: RunQuestion) -> bool:
        """Whether the client can ask a question."""
        return self.url if is_secret(question.schema_json) else self.form


def answerable(run: Run, identity: str) -> Sequence[RunQuestion]:
    """Returns the open questions of a run that a person may answer, oldest first."""
    return [each for each in run.questions if not each.approvers or identity in each.approvers]


def request_of(question: RunQuestion, addresses: Addresses) -> types.ElicitRequest:
    """Returns the request that asks a question."""
    if is_secret(question.schema_json):
        url = addresses.of_secret(question.run_id, question.input_id)
        params = types.ElicitRequestURLParams(
            message=_text(question), url=url, elicitation_id=f"{question.run_id}/{question.input_id}"
        )
        return types.ElicitRequest(params=params)
    request = encoded(form_of(_asked(question)))
    assert isinstance(request, types.ElicitRequest)
    return request


async def give(client: Client, run: Run, input_id: str, response: Mapping[str, Any]) -> None:
    """Gives a client's response to a question of a run. One to a question that is not open is ignored: an answer may
    come twice. A person that does not answer a question ends the run, except that an approval is declined.

    Raises InvalidArgument if the response does not match the question, and the errors of Client.respond.
    """
    question = next((each for each in run.questions if each.input_id == input_id), None)
    if question is None:
        return
    action = response.get("action")
    if action not in ("accept", "decline", "cancel"):
        raise InvalidArgument("the response to an elicitation has the action accept, decline or cancel")
    if is_secret(question.schema_json):
        if action != "accept":  # accept says that the person has gone to the address
            await client.cancel(run.run_id, f"the person did not answer: {action}")
        return
    asked = _asked(question)
    try:
        given: FormAnswer = decoded(form_of(asked), response)
        answer = answer_from(asked, given)
    except FailedPrecondition:
        await client.cancel(run.run_id, f"the person did not answer: {action}")
        return
    await client.respond(run.run_id, input_id, answer.text, decision=_DECISIONS.get(answer.decision, ""))


def _asked(question: RunQuestion) -> PersonQuestion:
    kind = QuestionKind.APPROVAL if question.is_approval else QuestionKind.INPUT
    return PersonQuestion(_text(question), kind, None if question.is_approval else json_object(question.schema_json))


def _text(question: RunQuestion) -> str:
    text = question.text or "The agent asks for input."
    if question.plan is not None:
        text += f"\n\n{question.plan.to_json()[:MAX_SUBJECT]}"
    if question.subject_json:
        text += f"\n\n{question.subject_json[:MAX_SUBJECT]}"
    return f"{question.role}: {text}" if question.role else text
