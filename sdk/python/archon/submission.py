"""Requests that submit runs."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import TypedDict

from archon import context
from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.api.orchestrator.v1 import run_pb2
from archon.errors import InvalidArgument
from archon.types.breakpoint import to_breakpoint
from archon.types.budget import Budget
from archon.types.part import Part, to_messages
from archon.types.plan import Plan
from archon.wire import set_seconds, to_parts

Goal = str | Sequence[Part]
"""A text, or parts."""


class RunOptions(TypedDict, total=False):
    """The options of `Client.run` and `Client.submit`."""

    roles: Sequence[str]
    capabilities: Sequence[str]
    versions: Mapping[str, str] | None
    pin_versions: bool
    strategy: str
    planner: str
    check_alignment: bool
    budget: Budget | None
    session_id: str
    request_id: str
    timeout: float | None
    metadata: Mapping[str, str] | None
    plan: Plan | str
    breakpoints: Sequence[str]


def content(goal: Goal, what: str) -> Sequence[common_pb2.Part]:
    """Returns the parts of a goal or an answer. Raises as `archon.wire.to_parts` does."""
    return to_parts(goal if isinstance(goal, str) else to_messages(goal), what)


def run_changes(goal: Goal | None, options: RunOptions | None) -> tuple[pb.SubmitRunRequest, list[str]]:
    """Returns a request with the values of a goal and of options that change another request, and the names of the
    fields that they set. Raises as `submit_request` does."""
    given = options or {}
    request = submit_request("-" if goal is None else goal, **given)
    names = ["plan_json" if name == "plan" else name for name in given]
    return request, [*(["goal"] if goal is not None else []), *names]


def fork_request(
    run_id: str,
    after_seq: int,
    goal: Goal | None,
    rerun: Sequence[str],
    answers: Mapping[str, Goal] | None,
    inputs: Mapping[str, str] | None,
) -> pb.ForkRunRequest:
    """Returns the request that `Client.fork` sends, without a request id. Raises as `content` does."""
    request = pb.ForkRunRequest(run_id=run_id, after_seq=after_seq, rerun=rerun)
    if goal is not None:
        request.goal.extend(content(goal, "the goal"))
    for task, answer in (answers or {}).items():
        request.edited_answers.add(task=task, parts=content(answer, f"the answer of {task}"))
    for task, text in (inputs or {}).items():
        request.edited_inputs.add(task=task, text=text)
    return request


def submit_request(
    goal: Goal,
    *,
    roles: Sequence[str] = (),
    capabilities: Sequence[str] = (),
    versions: Mapping[str, str] | None = None,
    pin_versions: bool = False,
    strategy: str = "",
    planner: str = "",
    check_alignment: bool = False,
    budget: Budget | None = None,
    session_id: str = "",
    request_id: str = "",
    timeout: float | None = None,
    metadata: Mapping[str, str] | None = None,
    plan: Plan | str = "",
    breakpoints: Sequence[str] = (),
) -> pb.SubmitRunRequest:
    """Returns the request that `Client.submit` sends. The run continues the trace of the current OpenTelemetry span, or
    of the call being served. Raises MessageTooLarge, and InvalidArgument if the goal is not valid UTF-8, the strategy
    is unknown, or a text is no breakpoint."""
    request = pb.SubmitRunRequest(
        request_id=request_id or uuid.uuid4().hex,
        goal=content(goal, "the goal"),
        roles=roles,
        capabilities=capabilities,
        versions=versions,
        pin_versions=pin_versions,
        strategy=_strategy(strategy),
        planner=planner,
        check_alignment=check_alignment,
        budget=None if budget is None else budget.proto,
        session_id=session_id,
        metadata=metadata,
        plan_json=plan if isinstance(plan, str) else plan.to_json(),
        breakpoints=map(to_breakpoint, breakpoints),
    )
    if timeout is not None:
        set_seconds(request.timeout, timeout)
    traceparent, tracestate = context.trace()
    if traceparent:  # in the request, because a Converse stream carries the requests of many callers
        request.trace.traceparent, request.trace.tracestate = traceparent, tracestate
    return request


def _strategy(name: str) -> run_pb2.Strategy.ValueType:
    if not name:
        return run_pb2.STRATEGY_UNSPECIFIED
    strategies = {value.removeprefix("STRATEGY_").lower(): value for value in run_pb2.Strategy.keys()[1:]}
    if name not in strategies:
        raise InvalidArgument(f"unknown strategy {name!r}; use one of {', '.join(strategies)}")
    return run_pb2.Strategy.Value(strategies[name])
