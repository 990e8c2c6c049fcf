"""A variant as the target of an eval: each case is one call of it, with the goal in place of the task's input."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from archon.clock import monotonic
from archon.errors import InvalidArgument
from archon.json_text import json_or
from archon_mesh.evals import CalledTool, Case, Trajectory
from archon_mesh.llm import ModelClient, deadline
from archon_mesh.llm.wrappers import RetryModel
from archon_mesh.playground.played import answer_text
from archon_mesh.playground.variant import Variant


def variant_target(variant: Variant, model: ModelClient) -> Callable[[Case], Awaitable[Trajectory]]:
    """Returns a function for `evaluate`, which answers a case by one call of the variant. The tools that the model
    calls are in the trajectory, and are not executed.

    Raises InvalidArgument if the variant does not say which message has the input of the task (`input`).
    """
    if variant.input is None:
        raise InvalidArgument("the variant has no `input`, the number of the message in whose place the goal goes")
    client = RetryModel(model)

    async def answer(case: Case) -> Trajectory:
        request = replace(variant.with_input(_goal(case)).request, timeout=case.timeout)
        began = monotonic()
        reply = await deadline.generate(client, request)
        role = variant.origin.role
        return Trajectory(
            answer_text(reply) if not reply.text else reply.text,
            roles=(role,) if role else (),
            tool_calls=tuple(CalledTool(call.name, role, json_or(call.arguments_json)) for call in reply.tool_calls),
            cost_usd=reply.usage.cost_micro_usd / 1e6,
            tokens=reply.usage.input_tokens + reply.usage.output_tokens,
            seconds=monotonic() - began,
        )

    return answer


def _goal(case: Case) -> str:
    """Returns the goal of a case. Raises InvalidArgument if a part of it is no text."""
    if not isinstance(case.goal, str) and not all(part.text for part in case.goal):
        raise InvalidArgument(f"case {case.id}: the goal has a part that is no text, which no variant takes")
    return case.goal_text()
