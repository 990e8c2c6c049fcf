"""The messages of a task, from the events of its run."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from typing import Final

from a2a.types import a2a_pb2

from archon.api.orchestrator.v1 import run_pb2
from archon.client import Client
from archon.errors import RunExpired
from archon.types.part import Part, to_parts
from archon.types.run import Run
from archon_services.gateway.a2a.questions import Asked
from archon_services.gateway.a2a.tasks import context_of, goal_message, user_message

READ_TIMEOUT: Final = 10.0
"""Seconds in which the events of a run are read."""


async def history_of(client: Client, run: Run) -> list[a2a_pb2.Message]:
    """Returns the messages of a task, oldest first: the goal, and each question that was answered with its answer. The
    open question is the message of the status. Of a run whose events have been deleted, only the goal is known."""
    messages = [goal_message(run)]
    if not run.closed_questions and not run.questions:
        return messages
    asked: dict[str, Asked] = {}
    with suppress(RunExpired):
        async with (
            asyncio.timeout(READ_TIMEOUT),
            aclosing(client.watch(run.run_id, durable_only=True, patience=0.0)) as events,
        ):
            async for event in events:
                if (question := Asked.from_event(event.proto)) is not None:
                    asked[question.input_id] = question
                elif event.proto.HasField("input_given"):
                    messages += _exchange(run, asked.pop(event.proto.input_given.input_id, None), event.proto)
                if event.seq >= run.last_seq:
                    break
    return messages


def _exchange(run: Run, question: Asked | None, event: run_pb2.RunEvent) -> list[a2a_pb2.Message]:
    """Returns a question, if it is known, and its answer."""
    given, context_id = event.input_given, context_of(run)
    parts = to_parts(given.parts)
    if question is not None and question.is_secret:
        parts = (Part(text="(a secret)", metadata=parts[0].metadata if parts else {}),)
    answer = user_message(run.run_id, context_id, parts, f"{given.input_id}/answer")
    return [answer] if question is None else [question.message(run.run_id, context_id), answer]
