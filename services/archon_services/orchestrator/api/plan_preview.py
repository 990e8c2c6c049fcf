"""The plan that a run would get: an instance of the planner is asked for it, and nothing is stored.

The request and the reply take the same way as in a run, through the engine with a state that is thrown away; only the
transport differs: RunTask, which needs no journal.
"""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Final, cast

from archon import context
from archon.api.agent.v1 import agent_pb2, agent_service_pb2, agent_service_pb2_grpc
from archon.api.common.v1 import plan_pb2
from archon.errors import ArchonError, DeadlineExceeded, PlanFailed, ResourceExhausted, Unavailable
from archon.interceptors import translated
from archon.registry import Registration
from archon.registry.instance_channel import connect_to_instance
from archon.wire import set_seconds
from archon_mesh.engine import RunState, Task, apply
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.decide.engine import decide
from archon_mesh.engine.types import Submission
from archon_services.orchestrator.convert.failures import failure_as_error
from archon_services.orchestrator.convert.plan import write_plan
from archon_services.orchestrator.dispatch.assign_task import assign_task
from archon_services.orchestrator.runs.turn.plan_reply import with_plan
from archon_services.orchestrator.sessions.inbound import result_input

TIMEOUT: Final = 60.0
"""Seconds for a plan, if the caller has no earlier deadline."""

MARGIN: Final = 0.2
"""Seconds before the caller's deadline at which the planner's time ends, so that the caller learns who was silent."""

MAX_PREVIEWS: Final = 16
"""Plans that are made at a time."""

MAX_ASKED: Final = 3
"""Instances that are asked in turn if they cannot be reached."""


class PlanPreview:
    """Makes plans without runs. `instances` are those that count as alive, by id; `now` returns wall seconds."""

    def __init__(
        self,
        instances: Callable[[], Mapping[str, Registration]],
        now: Callable[[], float],
        dice: random.Random | None = None,
    ) -> None:
        self._instances = instances
        self._now = now
        self._dice = dice or random.Random()
        self._running = 0

    async def plan(self, submission: Submission, owner: str) -> plan_pb2.Plan:
        """Returns the plan that the planner of a submission makes, without tasks and states.

        Raises PlanFailed if the planner's reply is no plan the second time either, the failure of the planner's task,
        DeadlineExceeded if the planner is silent, Unavailable if no instance of it can be reached, and
        ResourceExhausted if MAX_PREVIEWS plans are being made.
        """
        if self._running >= MAX_PREVIEWS:
            raise ResourceExhausted(f"{MAX_PREVIEWS} plans are being made: try again later", retry_delay=1.0)
        self._running += 1
        try:
            return await self._plan(submission, owner)
        finally:
            self._running -= 1

    async def _plan(self, submission: Submission, owner: str) -> plan_pb2.Plan:
        run, submission = RunState(), replace(submission, rules=())  # nothing happens that a person has to approve
        left = context.timeout(TIMEOUT + MARGIN) - MARGIN
        end = self._now() + left
        self._feed(run, inp.Submit(submission, owner, 1))
        assert run.plan is not None
        task = run.tasks[run.plan.planner]
        while not run.plan.steps:
            instances = self._planners(task.role)
            self._feed(run, inp.SlotFound(task.task_id, instances[0].instance_id), task.not_before)
            if not task.live:
                break
            result = await self._ask(instances, assign_task(run, task, self._now()), end, left)
            self._feed(run, with_plan(run, result_input((task.task_id, task.attempt), result, 0)))
            if run.ended or task.ended or task.question:
                break
        if not run.plan.steps:
            raise _failure(run, task, left)
        plan = plan_pb2.Plan()
        write_plan(run, plan)
        plan.ClearField("change_seq")
        for step in plan.steps:
            step.ClearField("task_id")
            step.ClearField("state")
        return plan

    def _feed(self, run: RunState, given: inp.Input, not_before: float = 0.0) -> None:
        now = max(self._now(), not_before)  # the pause before a second attempt is for busy instances
        for event in decide(run, given, now):
            apply(run, event, now)

    def _planners(self, role: str) -> list[Registration]:
        """The instances of a role, in any order. Raises Unavailable if there is none that can be reached."""
        instances = [each for each in self._instances().values() if each.role == role and each.dialled_at]
        if not instances:
            raise Unavailable(f"no instance of {role!r} can be reached", metadata={"role": role})
        self._dice.shuffle(instances)
        return instances[:MAX_ASKED]

    async def _ask(
        self, instances: Sequence[Registration], assigned: agent_pb2.AssignTask, end: float, seconds: float
    ) -> agent_pb2.TaskResult:
        problem: Unavailable | ResourceExhausted | None = None
        for instance in instances:
            left = end - self._now()
            if left <= 0:
                break
            try:
                return await run_task(instance, assigned, left)
            except (Unavailable, ResourceExhausted) as error:
                problem = error
            except DeadlineExceeded:
                break
        role = instances[0].role
        if problem is not None:
            raise Unavailable(f"no instance of {role!r} answers: {problem}", metadata={"role": role}) from problem
        raise _too_late(role, seconds)


async def run_task(instance: Registration, assigned: agent_pb2.AssignTask, timeout: float) -> agent_pb2.TaskResult:
    """Has an instance run one task, without a session. Raises the errors of the call, and Unavailable if it ends
    without a result."""
    set_seconds(assigned.remaining, timeout)
    request = agent_service_pb2.RunTaskRequest(task=assigned)
    async with connect_to_instance(instance) as channel:
        stub = agent_service_pb2_grpc.AgentServiceStub(channel)
        responses = translated(stub.RunTask(request, timeout=timeout))
        async with aclosing(cast(AsyncGenerator[agent_service_pb2.RunTaskResponse, None], responses)) as messages:
            async for message in messages:
                if message.HasField("result"):
                    return message.result
    raise Unavailable(f"{instance.instance_id} gave no result")


def _failure(run: RunState, task: Task, seconds: float) -> ArchonError:
    """Returns the error of a planner's task, which names the planner."""
    if task.question:
        return PlanFailed(f"{task.role!r} asks a person before it can plan: submit the goal instead")
    failure = run.failure or task.failure
    if failure is not None and failure.code == DeadlineExceeded.code:
        return _too_late(task.role, seconds)  # its own timer was first
    error = failure_as_error(failure) if failure is not None else PlanFailed(f"{task.role!r} made no plan")
    error.metadata.setdefault("role", task.role)
    return error


def _too_late(role: str, seconds: float) -> DeadlineExceeded:
    return DeadlineExceeded(f"{role!r} has made no plan within {seconds:.3g} s", metadata={"role": role})
