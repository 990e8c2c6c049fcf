"""Questions to people as messages of an agent, and answers of people as messages of the user."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from a2a.types import a2a_pb2

from archon.api.common.v1 import question_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.errors import FailedPrecondition, InvalidArgument
from archon.json_text import json_object
from archon.secret_answers import is_secret, seal
from archon.types.part import Part, to_parts
from archon.types.run_question import RunQuestion
from archon_services.common.a2a_keys import DECISION, INPUT_ID, KIND, ROLE, SCHEMA
from archon_services.common.a2a_parts import MESSAGE_ID, parts_from_a2a, parts_to_a2a, plain, struct


@dataclass(frozen=True, slots=True)
class Asked:
    """An open question of a run."""

    input_id: str
    role: str
    parts: Sequence[Part]
    schema_json: str = ""
    is_approval: bool = False
    subject_json: str = ""

    @classmethod
    def from_question(cls, question: RunQuestion) -> Asked:
        """Returns the question of a run."""
        return cls(
            question.input_id,
            question.role,
            question.prompt,
            question.schema_json,
            question.is_approval,
            question.subject_json,
        )

    @classmethod
    def from_event(cls, event: run_pb2.RunEvent) -> Asked | None:
        """Returns the question that an event asks; None if it asks none."""
        if event.HasField("input_requested"):
            asked = event.input_requested
            is_approval = asked.kind == question_pb2.QUESTION_KIND_APPROVAL
            parts = to_parts(asked.prompt)
            return cls(asked.input_id, asked.role, parts, asked.schema_json, is_approval, asked.subject_json)
        if event.HasField("approval_requested"):
            approval = event.approval_requested
            return cls(approval.input_id, approval.result.role, to_parts(approval.prompt), is_approval=True)
        return None

    @property
    def is_secret(self) -> bool:
        """Whether the answer is encrypted for the attempt that asks."""
        return is_secret(self.schema_json)

    @property
    def state(self) -> a2a_pb2.TaskState:
        """The state of an A2A task that waits for the answer."""
        return (
            a2a_pb2.TaskState.TASK_STATE_AUTH_REQUIRED
            if self.is_secret
            else a2a_pb2.TaskState.TASK_STATE_INPUT_REQUIRED
        )

    def message(self, run_id: str, context_id: str) -> a2a_pb2.Message:
        """Returns the question as a message of the agent, the same at each call."""
        parts = parts_to_a2a(self.parts)
        if self.subject_json:
            parts += parts_to_a2a([Part(data_json=self.subject_json, media_type="application/json")])
        metadata: dict[str, Any] = {INPUT_ID: self.input_id, ROLE: self.role, KIND: self._kind}
        if self.schema_json and not self.is_secret and (schema := json_object(self.schema_json)) is not None:
            metadata[SCHEMA] = schema
        return a2a_pb2.Message(
            message_id=f"{run_id}/{self.input_id}",
            task_id=run_id,
            context_id=context_id,
            role=a2a_pb2.Role.ROLE_AGENT,
            parts=parts or [a2a_pb2.Part(text="The agent asks for input.")],
            metadata=struct(metadata),
        )

    @property
    def _kind(self) -> str:
        return "secret" if self.is_secret else "approval" if self.is_approval else "input"


@dataclass(frozen=True, slots=True)
class GivenByUser:
    """The answer of a person, as a message has it."""

    input_id: str
    parts: Sequence[Part]
    decision: str = ""


def answer_of(message: a2a_pb2.Message, questions: Sequence[Asked]) -> GivenByUser:
    """Returns the answer that a message gives to one of the open questions: the one that its metadata names, else the
    oldest. The answer to a secret question is encrypted here.

    Raises FailedPrecondition if no question is open, and InvalidArgument if the message answers none of them.
    """
    if not questions:
        raise FailedPrecondition("the task takes a message only while it requires input")
    metadata: Mapping[str, Any] = plain(message.metadata) if message.HasField("metadata") else {}
    wanted = metadata.get(INPUT_ID, questions[0].input_id)
    question = next((each for each in questions if each.input_id == wanted), None)
    if question is None:
        raise InvalidArgument(f"no open question of the task has the id {str(wanted)[:100]!r}")
    parts = parts_from_a2a(message)
    if question.is_secret:
        if len(parts) != 1 or parts[0].text is None:
            raise InvalidArgument("the answer to a secret question is one text")
        text = parts[0].text
        sealed = text if text.startswith("sealed:") else seal(question.schema_json, text)
        parts = [Part(text=sealed, metadata={MESSAGE_ID: message.message_id})]
    decision = metadata.get(DECISION, "")
    if not isinstance(decision, str) or decision not in ("", "approve", "reject", "modify"):
        raise InvalidArgument(f"{DECISION} is approve, reject or modify, not {json.dumps(decision)[:100]}")
    return GivenByUser(question.input_id, parts, decision)
