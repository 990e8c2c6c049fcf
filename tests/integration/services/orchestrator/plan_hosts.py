"""The two hosts of plans, a process and a mesh, with one planner and one worker that a test scripts."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from typing_extensions import override

from archon.agent import TaskContext
from archon.client import RunHandle
from archon.errors import ArchonError
from archon.types import Budget, Usage
from archon_mesh.llm import ScriptedModel
from archon_mesh.people import InterceptionRule, TimeoutPolicy, Trigger, ask_person
from archon_mesh.planning import Alignment, PlanBudget, PlanExecutor, PlanFailed, Planner, Task, parse_plan
from tests.fixtures.mesh import Mesh
from tests.fixtures.waiting import eventually, until
from tests.integration.services.orchestrator.troupe import Troupe, durable, of
from tests.unit.mesh.planning.journals import MemoryJournal
from tests.unit.mesh.planning.workers import FunctionWorker, no_sleep

QUERY: Final = "a trip"
ASKS: Final = "planner-asks"
ABORTS: Final = "planner-aborts"
DEFAULTS: Final = "planner-defaults"
"""The beginnings of the names of planners whose plans a person approves: in any time; or the run fails; or the plan
counts as approved."""

RULES: Final = "rules:\n" + "".join(
    f"  - {{trigger: {trigger}, name: {trigger}, {terms}}}\n"
    for trigger, terms in (
        *((trigger, f"role: {ASKS}*") for trigger in ("plan", "replan")),
        ("plan", f"role: {ABORTS}*, timeout: 60"),
        ("plan", f"role: {DEFAULTS}*, timeout: 60, on_timeout: default, default: approve"),
        ("checkpoint", "timeout: 3600"),
    )
)
"""The rules of the mesh. Of steps, those ask that their plan marks."""

Answer = tuple[str, str]
"""A person's decision, empty for an answer, and the text."""


def step(id: str, *dependencies: str, **fields: Any) -> dict[str, Any]:
    return {"id": id, "description": f"do {id}", "dependencies": dependencies, **fields}


def plan(*steps: dict[str, Any]) -> str:
    return json.dumps({"goal": QUERY, "subtasks": steps})


@dataclass
class Script:
    """What the planner replies, in order, and what the worker does. With `approve`, a person decides about each plan;
    `person` answers questions, with their text, and approves by their decision; None is no answer. The person looks at
    no question before `may_decide` is set. `silent` is the beginning of a planner's name whose rule has a time. With `aligned`, the planner is asked whether a plan still leads
    to its goal. Without `replans` failures skip what depends on them. `gate` holds the planner when it replans.
    `model_calls` and `seconds` are the budget; each step makes one call of a model."""

    replies: list[str]
    work: Callable[[str], Awaitable[str]] | None = None
    approve: Callable[[], bool] | None = None
    aligned: Callable[[], str] | None = None
    person: Callable[[str], Answer | None] | None = None
    may_decide: asyncio.Event | None = None
    silent: str = ""
    replans: bool = True
    gate: asyncio.Event | None = None
    model_calls: int = 0
    seconds: float = 0.0
    begun: list[str] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    """Why the planner was asked for other plans."""
    cancelled: list[str] = field(default_factory=list)

    async def execute(self, step_id: str) -> str:
        """Does the work of a step."""
        self.begun.append(step_id)
        try:
            result = await self.work(step_id) if self.work is not None else f"{step_id} is done"
        except asyncio.CancelledError:
            self.cancelled.append(step_id)
            raise
        self.done.append(step_id)
        return result

    def answer(self, text: str, *, is_plan: bool) -> Answer | None:
        """Returns what the person answers to a question; an approval of a plan is decided by `approve`."""
        if is_plan and self.approve is not None:
            return ("approve" if self.approve() else "reject"), ""
        return self.person(text) if self.person is not None else None


_ask: ContextVar[Callable[[str], Awaitable[str]]] = ContextVar("ask")


async def ask(question: str) -> str:
    """Asks the person from within the work of a step."""
    return await _ask.get()(question)


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
    async def cancel(self) -> None: ...

    async def crash(self) -> None:
        """Kills the host, and starts it again with what its journal holds."""
        ...


class _NoticedJournal(MemoryJournal):
    """A journal that sets an event at each append."""

    def __init__(self, changed: asyncio.Event, appends: Sequence[Sequence[bytes]] = ()) -> None:
        super().__init__(appends)
        self._changed = changed

    @override
    def append(self, records: Sequence[bytes]) -> None:
        super().append(records)
        self._changed.set()


class ProcessHost:
    """A PlanExecutor with a journal, in the test's process."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()
        self._journal = _NoticedJournal(self._changed)
        self._executor: PlanExecutor
        self._script: Script
        self._execution: asyncio.Task[Task]
        self._person: asyncio.Task[None] | None = None

    async def start(self, script: Script) -> None:
        self._script = script
        self._execution = asyncio.create_task(self._execute())
        if script.approve is not None or script.person is not None:
            self._person = asyncio.create_task(self._decide())
        await asyncio.sleep(0)

    async def _execute(self) -> Task:
        planner = self._open()
        return await self._executor.execute(await planner.create_plan(QUERY))

    def _rules(self) -> list[InterceptionRule]:
        script, rules = self._script, [InterceptionRule(Trigger.CHECKPOINT, timeout=3600)]
        if script.approve is not None or script.silent == ASKS:
            rules += [InterceptionRule(Trigger.PLAN), InterceptionRule(Trigger.REPLAN)]
        if script.silent == ABORTS:
            rules.append(InterceptionRule(Trigger.PLAN, timeout=0.2))
        if script.silent == DEFAULTS:
            approving = TimeoutPolicy.DEFAULT
            rules.append(InterceptionRule(Trigger.PLAN, timeout=0.2, on_timeout=approving, default="approve"))
        return rules

    def _open(self) -> Planner:
        script = self._script
        planner = _Reasoned(script, ScriptedModel(lambda request: script.replies.pop(0)))
        self._executor = PlanExecutor(
            FunctionWorker(think=self._think),
            planner=planner if script.replans else None,
            alignment=self._aligned if script.aligned is not None else None,
            journal=self._journal,
            rules=self._rules(),
            takes_answers=True,
            budget=PlanBudget(max_model_calls=script.model_calls or None, max_seconds=script.seconds or None),
            sleep=no_sleep,
        )
        return planner

    async def _think(self, message: str) -> str:
        async def answered(question: str) -> str:
            return (await ask_person(question)).text

        _ask.set(answered)
        return await self._script.execute(message.splitlines()[0].removeprefix("do "))

    async def _decide(self) -> None:
        """Answers the questions of the run, as a person does: a question is open once its event is in the journal."""
        if self._script.may_decide is not None:
            await self._script.may_decide.wait()
        while True:
            self._changed.clear()
            for question in self._executor.questions():
                answer = self._script.answer(question.text, is_plan=question.plan is not None)
                if answer is not None:
                    self._executor.respond(question.id, answer[1], decision=answer[0] or None)
            await self._changed.wait()

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
        except ArchonError as error:
            failure = error.reason
        finally:
            if self._person is not None:
                self._person.cancel()
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

    async def cancel(self) -> None:
        self._executor.cancel()

    async def crash(self) -> None:
        left = _NoticedJournal(self._changed, self._journal.appends)
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
        if self._script.gate is not None:
            await self._script.gate.wait()
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
        asks = script.silent or (ASKS if script.approve else "planner")
        planner, worker = f"{asks}-{suffix}", f"worker-{suffix}"
        await self._troupe(planner, self._plan)
        await self._troupe(worker, self._work)
        self._handle = await self._mesh.client.submit(
            QUERY,
            strategy="plan",
            planner=planner,
            roles=[worker],
            check_alignment=script.aligned is not None,
            budget=Budget(max_model_calls=script.model_calls) if script.model_calls else None,
            timeout=20.0 if script.seconds else None,
        )
        if script.approve is not None or script.person is not None:
            self._person = asyncio.create_task(self._decide())

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
            if script.gate is not None:
                await script.gate.wait()
        return script.replies.pop(0)

    async def _work(self, task: TaskContext) -> str:
        _ask.set(task.ask)
        result = await self._script.execute(task.step_id)
        if self._script.model_calls:
            await task.reserve()
            task.record_model_call("m", {}, {}, started=0.0, seconds=0.1, usage=Usage(model_calls=1))
        return result

    async def _decide(self) -> None:
        """Answers the questions of the run, as a person does, until the run has ended."""
        if self._script.may_decide is not None:
            await self._script.may_decide.wait()
        answered: set[str] = set()
        async for _ in self._mesh.client.watch(self._handle.run_id, durable_only=True):
            run = await self._mesh.client.get(self._handle.run_id)
            for question in run.questions:
                if question.input_id in answered:
                    continue
                answer = self._script.answer(question.text, is_plan=question.plan is not None)
                if answer is not None:
                    answered.add(question.input_id)
                    await self._mesh.client.respond(run.run_id, question.input_id, answer[1], decision=answer[0])

    async def ended(self) -> Ended:
        run = await self._mesh.advance_until(self._handle.result(timeout=300))
        if self._person is not None:
            self._person.cancel()
        results = {
            steps[0].step_id: "".join(part.text for part in event.result.output)
            for event in of(await durable(self._handle), "result")
            if (steps := [task for task in run.tasks if task.task_id == event.task.task_id and task.step_id])
        }
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

    async def cancel(self) -> None:
        await self._mesh.client.cancel(self._handle.run_id)

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
