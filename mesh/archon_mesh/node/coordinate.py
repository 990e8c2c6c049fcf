"""A role that coordinates: the model sees other roles as tools, and each call of one is a delegation."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from archon.agent import Answer, TaskContext
from archon.agent.values import clean
from archon.errors import ArchonError, BudgetExhausted, InvalidArgument, OperationCancelled, ResourceExhausted
from archon_mesh.core.messages import ChatMessage, ToolCall
from archon_mesh.core.tool_messages import tool_answer, tool_failure
from archon_mesh.llm import ModelClient, ToolSpec
from archon_mesh.node.asking import ask
from archon_mesh.node.conversation import restored, saved
from archon_mesh.node.handler import messages_for
from archon_mesh.node.role import Role

MAX_TURNS: Final = 15
"""Calls of the model for one task, at most."""

_PARAMETERS: Final = {
    "type": "object",
    "properties": {"task": {"type": "string", "description": "what the role is to do"}},
    "required": ["task"],
}


def coordinate_with(role: Role, model: ModelClient) -> Callable[[TaskContext], Awaitable[Answer]]:
    """A handler that asks the model, carries out the calls of its reply at the same time, and asks again with what they
    came to, until a reply has no calls: that one is the answer.

    A delegation that fails is told to the model, which may go on; one that was cancelled, or found the budget spent,
    ends the task. A later attempt goes on after the last reply whose calls were made. Raises ResourceExhausted where
    the model still calls after MAX_TURNS.
    """

    async def answer(task: TaskContext) -> Answer:
        tools = tools_for(task)
        names = [tool.name for tool in tools]
        asked = messages_for(role, task)
        turns = restored(task.checkpoint)
        if turns:
            turns += await _carry_out(task, turns, names)
        for turn in range(_replies(turns) + 1, MAX_TURNS + 1):
            reply = await ask(role, task, model, [*asked, *turns], tools)
            if not reply.tool_calls:
                return Answer(reply.text, usage=task.usage)
            if turn == MAX_TURNS:
                break  # nobody would read what they come to
            turns.append(ChatMessage("assistant", reply.text, tool_calls=_with_ids(reply.tool_calls, turn)))
            if reply.text:
                task.write("\n\n")
            turns += await _carry_out(task, turns, names)
        raise ResourceExhausted(
            f"{role.name} has no answer after {MAX_TURNS} calls of its model, which still calls other roles",
            metadata={"role": role.name, "turns": str(MAX_TURNS)},
        )

    return answer


def tools_for(task: TaskContext) -> list[ToolSpec]:
    """One per role that the task may be delegated to, in the order given."""
    return [
        ToolSpec(one.role, one.description or f"The role {one.role}.", _PARAMETERS) for one in task.delegation_targets
    ]


def _with_ids(calls: Sequence[ToolCall], turn: int) -> tuple[ToolCall, ...]:
    """Some servers leave ids out, but an answer must name its call."""
    return tuple(
        call if call.id else replace(call, id=f"call_{turn}_{number}") for number, call in enumerate(calls, start=1)
    )


def _replies(turns: Sequence[ChatMessage]) -> int:
    return sum(one.role == "assistant" for one in turns)


async def _carry_out(task: TaskContext, turns: Sequence[ChatMessage], tools: Sequence[str]) -> list[ChatMessage]:
    """The calls of the last reply, all at once; one message each, in their order. Where this ends before they do, they
    are cancelled."""
    turn, calls, checkpoints = _replies(turns), turns[-1].tool_calls, [saved(turns)]  # one is enough for all
    try:
        async with asyncio.TaskGroup() as group:
            running = [
                group.create_task(_one(task, call, tools, f"{turn}.{number}", checkpoints), name=f"call {call.name}")
                for number, call in enumerate(calls, start=1)
            ]
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None  # what ended the others, too
    return [one.result() for one in running]


async def _one(
    task: TaskContext, call: ToolCall, tools: Sequence[str], place: str, checkpoints: list[bytes]
) -> ChatMessage:
    try:
        wanted = _task_of(call, tools)
        key, checkpoint = _key(place, call.name, wanted), checkpoints.pop() if checkpoints else b""
        answered = await task.delegate(wanted, role=call.name, memo_key=key, checkpoint=checkpoint)
    except (OperationCancelled, BudgetExhausted):
        raise
    except ArchonError as error:
        return tool_failure(call, error.code, error.reason, str(error))
    return tool_answer(call, answered.text)


def _key(place: str, role: str, wanted: str) -> str:
    """The same call in the same place of the conversation is the same delegation, in every attempt."""
    return f"{place}.{hashlib.sha256(f'{role}:{wanted}'.encode()).hexdigest()[:32]}"


def _task_of(call: ToolCall, tools: Sequence[str]) -> str:
    """What the role is to do. Raises InvalidArgument, in words that help a model to mend the call."""
    offered = f"The tools are: {', '.join(tools)}." if tools else "There are no tools."
    if call.name not in tools:
        raise InvalidArgument(f"there is no tool {call.name!r}. {offered}")
    wanted = f'{call.name} takes one JSON object, {{"task": "what the role is to do"}}'
    try:
        arguments: Any = json.loads(call.arguments_json)
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"the arguments are no JSON ({error}): {wanted}. {offered}") from None
    said = arguments.get("task") if isinstance(arguments, dict) else None
    if not isinstance(said, str) or not said.strip():
        raise InvalidArgument(f"the arguments have no text named task: {wanted}. {offered}")
    return clean(said)
