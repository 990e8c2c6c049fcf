"""The two hosts of plans, a process and a mesh, with one planner and one worker that a test scripts."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from archon.agent import TaskContext
from archon.client import RunHandle
from archon.errors import ArchonError
from archon_mesh.llm import ScriptedModel
from archon_mesh.planning import Alignment, PlanExecutor, PlanFailed, Planner, PlanNotApproved, Task, parse_plan
from tests.fixtures.mesh import Mesh
from tests.fixtures.waiting import eventually, until
from tests.integration.services.orchestrator.troupe import Troupe
from tests.unit.mesh.planning.journals import MemoryJournal
from tests.unit.mesh.planning.workers import FunctionWorker, no_sleep

QUERY: Final = "a trip"
ASKS: Final = "planner-asks"
"""The beginning of the names of planners whose plans a person approves, by a rule of the mesh."""


def step(id: str, *dependencies: str, **fields: Any) -> dict[str, Any]:
    return {"id": id, "description": f"do {id}", "dependencies": dependencies, **fields}


def plan(*steps: dict[str, Any]) -> str:
    return json.dumps({"goal": QUERY, "subtasks": steps})


@dataclass
class Script:
    """What the planner replies, in order, and what the worker does. With `approve`, a person decides about each plan;
    with `aligned`, it is asked whether a plan still leads to its goal. Without `replans` failures skip what depends on
    them."""

    replies: list[str]
    work: Callable[[str], Awaitable[str]] | None = None
    approve: Callable[[], bool] | None = None
    aligned: Callable[[], str] | None = None
    replans: bool = True
    begun: list[str] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    """Why the planner was asked for other plans."""

    async def execute(self, step_id: str) -> str:
        """Does the work of a step."""
        self.begun.append(step_id)
        result = await self.work(step_id) if self.work is not None else f"{step_id} is done"
        self.done.append(step_id)
        return result


@dataclass(frozen=True)
class Ended:
    """How a plan ended: the states of its last steps, and why it failed, if it did."""

    states: dict[str, str]
    results: dict[str, str]
    failure: str = ""


class Host(Protocol):
    """Executes one plan."""

    async def start(self, script: Script) -> None:
        """Starts the execution."""
        ...

    async def ended(self) -> Ended:
        """Waits for the end, however much time the pauses between attempts take."""
        ...

    async def states(self) -> dict[str, str]:
        """Returns the states of the steps now."""
        ...

    async def pause(self) -> None: ...
    async def resume(self) -> None: ...
    async def edit(self, text: str) -> None: ...

    async def crash(self) -> None:
        """Kills the host, and starts it again with what its journal holds."""
        ...


class ProcessHost:
    """A PlanExecutor with a journal, in the test's process."""

    def __init__(self) -> None:
        self._journal = MemoryJournal()
        self._executor: PlanExecutor
        self._script: Script
        self._execution: asyncio.Task[Task]

    async def start(self, script: Script) -> None:
        self._script = script
        self._execution = asyncio.create_task(self._execute())
        await asyncio.sleep(0)

    async def _execute(self) -> Task:
        planner = self._open()
        return await self._executor.execute(await planner.create_plan(QUERY))

    def _open(self) -> Planner:
        script = self._script
        model = ScriptedModel(lambda request: script.replies.pop(0))
        planner = _Reasoned(script, model, approve=self._approve if script.approve else None)
        self._executor = PlanExecutor(
            FunctionWorker(think=self._think),
            planner=planner if script.replans else None,
            alignment=self._aligned if script.aligned is not None else None,
            journal=self._journal,
            sleep=no_sleep,
        )
        return planner

    async def _think(self, message: str) -> str:
        return await self._script.execute(message.splitlines()[0].removeprefix("do "))

    async def _approve(self, task: Task) -> bool:
        assert self._script.approve is not None
        return self._script.approve()

    async def _aligned(self, task: Task) -> Alignment:
        assert self._script.aligned is not None
        return Alignment(self._script.aligned())

    async def ended(self) -> Ended:
        failure = ""
        try:
            async with asyncio.timeout(30):
                await self._execution
        except PlanFailed:
            failure = "PLAN_FAILED"
        except PlanNotApproved:
            failure = "APPROVAL_REJECTED"
        except ArchonError as error:
            failure = error.reason
        states = await self.states()
        task = self._executor.task
        return Ended(states, {each.id: str(each.result) for each in task.subtasks} if task is not None else {}, failure)

    async def states(self) -> dict[str, str]:
        task = self._executor.task
        return {each.id: each.status.value for each in task.subtasks} if task is not None else {}

    async def pause(self) -> None:
        self._executor.pause()

    async def resume(self) -> None:
        self._executor.resume()

    async def edit(self, text: str) -> None:
        self._executor.edit(parse_plan(text, QUERY, "edited"))

    async def crash(self) -> None:
        left = self._journal.after(len(self._journal.appends))
        self._execution.cancel()
        with suppress(asyncio.CancelledError, ArchonError):
            await self._execution
        self._journal = left
        self._open()
        self._execution = asyncio.create_task(self._executor.resume_from())
        await asyncio.sleep(0)


class _Reasoned(Planner):
    """A planner that notes the reasons for its plans."""

    def __init__(self, script: Script, model: ScriptedModel, **options: Any) -> None:
        super().__init__(model, **options)
        self._script = script

    async def replan(self, task: Task, reason: str, *arguments: Any, **options: Any) -> Task:
        self._script.reasons.append(reason)
        return await super().replan(task, reason, *arguments, **options)


_STATES: Final = {
    "completed": "completed",
    "failed": "failed",
    "canceled": "skipped",
    "working": "executing",
    "submitted": "pending",
}


class MeshHost:
    """A run of a mesh whose planner and worker are in the test's process. The mesh has the rule that ASKS names."""

    def __init__(self, mesh: Mesh, troupe: Troupe) -> None:
        self._mesh = mesh
        self._troupe = troupe
        self._script: Script
        self._handle: RunHandle
        self._person: asyncio.Task[None] | None = None

    async def start(self, script: Script) -> None:
        self._script = script
        suffix = uuid.uuid4().hex[:6]
        planner, worker = f"{ASKS if script.approve else 'planner'}-{suffix}", f"worker-{suffix}"
        await self._troupe(planner, self._plan)
        await self._troupe(worker, self._work)
        self._handle = await self._mesh.client.submit(
            QUERY, strategy="plan", planner=planner, roles=[worker], check_alignment=script.aligned is not None
        )
        if script.approve is not None:
            self._person = asyncio.create_task(self._decide(script.approve))

    async def _plan(self, task: TaskContext) -> str:
        request, script = task.plan_request, self._script
        assert request is not None
        if request.synthesise:
            return " + ".join(item.text for item in task.context)
        if request.align:
            problem = script.aligned() if script.aligned is not None else ""
            if not problem:
                return '{"aligned": true}'
            return json.dumps({**json.loads(script.replies.pop(0)), "reason": problem})
        if request.reason:
            script.reasons.append(request.reason)
        return script.replies.pop(0)

    async def _work(self, task: TaskContext) -> str:
        return await self._script.execute(task.step_id)

    async def _decide(self, approve: Callable[[], bool]) -> None:
        """Answers the questions of the run, as a person does."""
        answered: set[str] = set()
        while True:
            run = await self._mesh.client.get(self._handle.run_id)
            for question in run.questions:
                if question.input_id not in answered:
                    answered.add(question.input_id)
                    decision = "approve" if approve() else "reject"
                    await self._mesh.client.respond(run.run_id, question.input_id, "", decision=decision)
            await asyncio.sleep(0.02 if not run.state.final else 60)

    async def ended(self) -> Ended:
        run = await self._mesh.advance_until(self._handle.result(timeout=300))
        if self._person is not None:
            self._person.cancel()
        plan = run.proto.plan
        results = {each.step_id: "".join(part.text for part in each.result) for each in plan.steps}
        return Ended(await self.states(), results, run.failure.reason if run.failure is not None else "")

    async def states(self) -> dict[str, str]:
        run = await self._mesh.client.get(self._handle.run_id)
        steps = run.plan.steps if run.plan is not None else ()
        return {each.step_id: _STATES.get(str(each.state).lower(), str(each.state)) for each in steps}

    async def pause(self) -> None:
        await self._mesh.client.pause(self._handle.run_id)

    async def resume(self) -> None:
        await self._mesh.client.resume(self._handle.run_id)

    async def edit(self, text: str) -> None:
        run = await self._mesh.client.get(self._handle.run_id)
        assert run.plan is not None
        await self._mesh.client.edit_plan(run.run_id, text, expected_seq=run.plan.change_seq)

    async def crash(self) -> None:
        await self._mesh.orchestrator.kill()
        await self._mesh.orchestrator.start()


async def reached(host: Host, **states: str) -> None:
    """Waits until steps have these states."""

    async def look() -> bool:
        now = await host.states()
        return all(now.get(id_) == state for id_, state in states.items())

    await eventually(look)


async def begun(script: Script, *ids: str) -> None:
    """Waits until the worker has begun these steps."""
    await until(lambda: all(id_ in script.begun for id_ in ids))
