"""Questions of a run that were answered before, and whether a resume gives the same answers again."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from archon.api.common.v1 import question_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.client import Client
from archon.errors import FailedPrecondition
from archon.types.enum_name import enum_name
from archon.types.part import to_messages
from archon.types.run import Run
from archon.types.run_question import RunQuestion
from archon_services.gateway.agui.interrupts import AnswerGiven

READ_TIMEOUT: Final = 10.0
"""Seconds in which the events of a run are read."""


@dataclass(slots=True)
class Answered:
    """A question that was closed; `given` is its answer, None if it was withdrawn or timed out."""

    question: RunQuestion
    given: run_pb2.InputGiven | None = None


async def read_answered(client: Client, run: Run, input_ids: Collection[str]) -> dict[str, Answered]:
    """Returns closed questions of a run by their ids, from its events. Raises RunExpired if they are deleted, and
    DeadlineExceeded."""
    found: dict[str, Answered] = {}
    async with (
        asyncio.timeout(READ_TIMEOUT),
        aclosing(client.watch(run.run_id, durable_only=True, patience=0.0)) as events,
    ):
        async for event in events:
            message = event.proto
            if event.type in ("input_requested", "approval_requested"):
                question = _question(run, message)
                if question.input_id in input_ids:
                    found[question.input_id] = Answered(question)
            elif event.type == "input_given" and (known := found.get(message.input_given.input_id)) is not None:
                known.given = message.input_given
            if event.seq >= run.last_seq:
                break
    return found


def check_same(answered: Answered, answer: AnswerGiven, run: Run) -> None:
    """Raises FailedPrecondition unless an answer is the one that the question has. A secret is encrypted anew each
    time: any answer to it counts as the same."""
    given = answered.given
    if answer.abandons or given is None:
        if answer.abandons and run.state.value == "canceled":
            return
        text = "was answered" if given is not None else "is closed: no answer came in time, or it was withdrawn"
        raise FailedPrecondition(f"the question {text}", metadata={"input_id": answer.input_id})
    if answer.is_secret:
        return
    decision = enum_name(question_pb2.Decision, "DECISION_", given.decision)
    if decision != answer.decision or list(given.parts) != to_messages(answer.parts):
        raise FailedPrecondition("the question has another answer", metadata={"input_id": answer.input_id})


def _question(run: Run, event: run_pb2.RunEvent) -> RunQuestion:
    question = run_pb2.Question(run_id=run.run_id, task_id=event.task.task_id)
    if event.HasField("input_requested"):
        asked = event.input_requested
        question.input_id, question.role, question.schema_json = asked.input_id, asked.role, asked.schema_json
        question.kind, question.subject_json = asked.kind, asked.subject_json
    else:
        question.input_id, question.kind = event.approval_requested.input_id, question_pb2.QUESTION_KIND_APPROVAL
    return RunQuestion(question)
