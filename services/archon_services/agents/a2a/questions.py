"""Questions of an A2A agent, asked as questions of the task whose task it is."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from a2a.types import a2a_pb2

from archon.agent import Question, TaskContext
from archon.types.part import Part
from archon_services.agents.a2a.folded_task import FoldedTask
from archon_services.common.a2a_keys import DECISION, INPUT_ID, KIND, SCHEMA
from archon_services.common.a2a_parts import parts_from_a2a, parts_to_a2a, plain, struct


async def answer_to(task: TaskContext, folded: FoldedTask) -> a2a_pb2.Message:
    """Asks a person for the input that the agent needs, and returns the message with the answer, without an id. Its
    question has the same id in each attempt. Raises the errors of TaskContext.ask_question."""
    question = folded.question
    metadata: dict[str, Any] = plain(question.metadata) if question.HasField("metadata") else {}
    message = a2a_pb2.Message(role=a2a_pb2.Role.ROLE_USER, task_id=folded.task_id, context_id=folded.context_id)
    reply: dict[str, Any] = {INPUT_ID: metadata[INPUT_ID]} if INPUT_ID in metadata else {}
    parts = parts_from_a2a(a2a_pb2.Message(parts=question.parts)) or [Part(text="The agent needs input.")]
    if folded.wants_secret:
        message.parts.add(text=await task.ask_secret(parts))
    else:
        schema = metadata.get(SCHEMA)
        digest = hashlib.sha256(f"{folded.task_id}/{question.message_id}/{parts}".encode()).hexdigest()
        given = await task.ask_question(
            Question(
                "",
                json.dumps(schema) if isinstance(schema, dict) else "",
                input_id=f"a2a-{digest[:32]}",
                parts=parts,
                is_approval=metadata.get(KIND) == "approval",
            )
        )
        if given.decision:
            reply[DECISION] = given.decision
        message.parts.extend(parts_to_a2a(given.parts) or [a2a_pb2.Part(text=given.decision or given.text)])
    if reply:
        message.metadata.CopyFrom(struct(reply))
    return message
