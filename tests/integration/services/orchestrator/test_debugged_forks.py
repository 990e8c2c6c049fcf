"""Forks of runs that a person debugs: breakpoints stay with their run, the inputs that were given at them are kept."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections import Counter

from archon.agent import Answer, TaskContext
from archon.client import RunHandle, answer_text
from archon.errors import InvalidArgument
from archon.lineage import RunProvenance
from archon.types import ForkDecision, RunEvent, RunQuestion, TaskState, Usage
from tests.fixtures.mesh import Mesh
from tests.fixtures.waiting import eventually
from tests.integration.services.orchestrator.troupe import Troupe, durable, of


def named(role: str) -> str:
    return f"{role}-{uuid.uuid4().hex[:6]}"


async def held(mesh: Mesh, handle: RunHandle) -> RunQuestion:
    """Waits until the run is held at a breakpoint."""
    found: list[RunQuestion] = []

    async def is_held() -> bool:
        found[:] = [each for each in (await mesh.client.get(handle.run_id)).questions if each.breakpoint]
        return bool(found)

    await eventually(is_held)
    return found[0]


async def modify(mesh: Mesh, handle: RunHandle, **value: str) -> None:
    question = await held(mesh, handle)
    await mesh.client.respond(handle.run_id, question.input_id, json.dumps(value), decision="modify")


class Pair:
    """The roles `first` and `second`; `second` fails once for each run that is not a fork."""

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh
        self.first, self.second = named("first"), named("second")
        self.done: Counter[tuple[str, str]] = Counter()
        self.fails = True

    async def join(self, troupe: Troupe) -> Pair:
        await troupe(self.first, self.begin)
        await troupe(self.second, self.end, depends_on=[self.first])
        return self

    async def begin(self, task: TaskContext) -> Answer:
        self.done[task.role, task.run_id] += 1
        return Answer(f"begun: {task.text}", usage=Usage(input_tokens=10))

    async def end(self, task: TaskContext) -> str:
        self.done[task.role, task.run_id] += 1
        if self.fails:
            raise InvalidArgument("not today")
        return f"{task.text} after {task.context[0].text}"

    async def debugged(self, **inputs: str) -> RunHandle:
        """A run that failed, at whose breakpoints both roles were given an input."""
        roles = [self.first, self.second]
        handle = await self.mesh.client.submit("the goal", roles=roles, breakpoints=["task:*"])
        for name in ("first", "second"):
            await modify(self.mesh, handle, input=inputs[name])
        assert (await handle.result(timeout=15)).state == TaskState.FAILED
        self.fails = False
        return handle


async def test_a_fork_of_a_held_run_is_not_held(mesh: Mesh, troupe: Troupe) -> None:
    pair = await Pair(mesh).join(troupe)
    pair.fails = False
    roles = [pair.first, pair.second]
    source = await mesh.client.submit("the goal", roles=roles, breakpoints=[f"task:{pair.second}"])
    question = await held(mesh, source)
    fork = await mesh.client.fork(source.run_id)
    done = await fork.result(timeout=15)
    assert answer_text(done) == "the goal after begun: the goal" and done.breakpoints == []
    assert pair.done[pair.first, fork.run_id] == 0, "what had completed is reused"
    still = await mesh.client.get(source.run_id)
    assert [each.input_id for each in still.questions] == [question.input_id]
    await mesh.client.respond(source.run_id, question.input_id, decision="approve")
    assert answer_text(await source.result(timeout=15)) == "the goal after begun: the goal"


async def test_a_rerun_keeps_the_inputs_that_were_given_at_breakpoints(mesh: Mesh, troupe: Troupe) -> None:
    pair = await Pair(mesh).join(troupe)
    source = await pair.debugged(first="one", second="two")
    again = await mesh.client.fork(source.run_id)
    assert answer_text(await again.result(timeout=15)) == "two after begun: one"
    assert pair.done[pair.first, again.run_id] == 0
    whole = await mesh.client.fork(source.run_id, rerun=[pair.first])
    assert answer_text(await whole.result(timeout=15)) == "two after begun: one"
    other = await mesh.client.fork(source.run_id, inputs={pair.second: "three"})
    assert answer_text(await other.result(timeout=15)) == "three after begun: one"
    anew = await mesh.client.fork(source.run_id, goal="another goal")
    assert answer_text(await anew.result(timeout=15)) == "another goal after begun: another goal"
    provenance = RunProvenance()
    for event in await durable(again):
        provenance.apply(RunEvent(event))
    assert "two" in [source.text for source in provenance.of(pair.second).sources], "it is a source of the answer"


async def test_a_fork_before_the_input_was_given_has_the_goal(mesh: Mesh, troupe: Troupe) -> None:
    pair = await Pair(mesh).join(troupe)
    source = await pair.debugged(first="one", second="two")
    given = of(await durable(source), "input_given")[1]
    before = await mesh.client.fork(source.run_id, after_seq=given.seq - 1)
    assert answer_text(await before.result(timeout=15)) == "the goal after begun: one"
    preview = await mesh.client.plan_fork(source.run_id, after_seq=given.seq)
    assert preview.named(ForkDecision.EXECUTED) == [pair.second]


async def test_a_step_keeps_its_input_in_a_fork_and_a_planner_the_goal(mesh: Mesh, troupe: Troupe) -> None:
    planner, worker = named("planner"), named("worker")
    stuck = asyncio.Event()

    async def plan(task: TaskContext) -> str:
        assert task.plan_request is not None
        return json.dumps({"goal": task.text, "subtasks": [{"id": "s", "role": worker, "description": "one"}]})

    async def work(task: TaskContext) -> str:
        await stuck.wait()
        return f"did {task.text}"

    await troupe(planner, plan, planner=True)
    await troupe(worker, work)
    points = [f"task:{planner}", "step:s"]
    source = await mesh.client.submit("the goal", strategy="plan", planner=planner, roles=[worker], breakpoints=points)
    await modify(mesh, source, input="another plan")
    await modify(mesh, source, input="two")
    fork = await mesh.client.fork(source.run_id)
    await mesh.client.cancel(source.run_id)
    stuck.set()
    assert answer_text(await fork.result(timeout=15)) == "did two"
    assert [event.dispatched.role for event in of(await durable(fork), "dispatched")] == [worker], "the plan is kept"


async def test_a_rating_and_the_records_of_a_fork_count_the_tasks_that_it_executed(mesh: Mesh, troupe: Troupe) -> None:
    pair = await Pair(mesh).join(troupe)
    source = await pair.debugged(first="one", second="two")
    fork = await mesh.client.fork(source.run_id)
    await fork.result(timeout=15)
    await mesh.client.rate(fork.run_id, 5)

    async def tally(role: str) -> tuple[int, int]:
        (whole,) = [each for each in await mesh.client.instance_metrics(role) if not each.instance_id]
        return round(whole.tasks), round(whole.ratings)

    assert await tally(pair.first) == (1, 0), "it was executed once, and not in the run that was rated"
    assert await tally(pair.second) == (1, 1), "a bad request is no fault of its instance"
