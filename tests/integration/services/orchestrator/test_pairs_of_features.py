"""Two features in one run: a person within a loop, a fork after an approval, a budget below a plan, and others."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from archon.agent import Question, TaskContext
from archon.client import RunHandle, answer_text
from archon.errors import ArchonError, BudgetExhausted, FailedPrecondition, InvalidArgument, RequestIdReused
from archon.registry import Tool
from archon.types import Budget, Run, RunQuestion, TaskState, Usage
from archon_mesh.workflows.role import ROLE, goal_of, handle
from tests.fixtures.mesh import Mesh
from tests.fixtures.replicas import Replicas
from tests.fixtures.waiting import eventually
from tests.integration.services.orchestrator.test_workflows import submit, written
from tests.integration.services.orchestrator.troupe import Troupe

COMPLETED = TaskState.COMPLETED
FAILED = TaskState.FAILED
CANCELED = TaskState.CANCELED

DOORS = """
name: doors
parameters: {doors: {type: list}}
steps:
  - for_each: "{{ doors }}"
    as: door
    save_as: opened
    steps:
      - {approve: "Open {{ door }}?", save_as: decision, timeout: 600}
      - {role: porter, task: "{{ door }} {{ decision }}"}
  - {role: porter, task: "{{ opened | join(', ') }}"}
"""


class House:
    """The role that interprets workflows, and a porter, which answers with its task and keeps a list of them."""

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh
        self.worked: list[str] = []
        self.fail: Counter[str] = Counter()
        self.gates: dict[str, asyncio.Event] = {}

    async def work(self, task: TaskContext) -> str:
        self.worked.append(task.text)
        if task.text in self.gates:
            await self.gates[task.text].wait()
        if self.fail[task.text]:
            self.fail[task.text] -= 1
            raise InvalidArgument(f"cannot {task.text}")
        return task.text

    async def begun(self, text: str) -> None:
        async def seen() -> bool:
            return text in self.worked

        await eventually(seen)

    async def questions(self, handle: RunHandle, count: int) -> list[RunQuestion]:
        found: list[RunQuestion] = []

        async def asked() -> bool:
            found[:] = (await self.mesh.client.get(handle.run_id)).questions
            return len(found) == count

        await eventually(asked)
        return sorted(found, key=lambda question: question.text)

    async def decide(self, question: RunQuestion, decision: str, text: str = "") -> None:
        run_id = question.input_id.partition(".")[0]
        await self.mesh.client.respond(run_id, question.input_id, text, decision=decision)


@pytest.fixture
async def house(mesh: Mesh, troupe: Troupe) -> House:
    house = House(mesh)
    await troupe(ROLE, handle, tools=[Tool("approve")], planner=True)
    await troupe("porter", house.work)
    return house


ROLES = ["porter", ROLE]


async def test_a_person_decides_each_item_of_a_loop_by_itself(house: House, tmp_path: Path) -> None:
    run = await submit(house.mesh.client, written(tmp_path, DOORS), ROLES, doors=["front", "back", "side"])
    back, front, side = await house.questions(run, 3)
    await house.decide(side, "approve")
    await house.begun("side approved")
    await house.decide(back, "modify", "later")
    await house.decide(front, "approve")
    assert answer_text(await run.result(timeout=20)) == "front approved, back later, side approved"


async def test_a_pause_holds_a_loop_whose_questions_are_answered_meanwhile(house: House, tmp_path: Path) -> None:
    run = await submit(house.mesh.client, written(tmp_path, DOORS), ROLES, doors=["front", "back"])
    back, front = await house.questions(run, 2)
    await house.mesh.client.pause(run.run_id)
    await house.decide(back, "approve")
    await house.decide(front, "approve")
    assert house.worked == []
    await house.mesh.client.resume(run.run_id)
    assert answer_text(await run.result(timeout=20)) == "front approved, back approved"


async def test_a_cancelled_loop_takes_back_its_questions(house: House, tmp_path: Path) -> None:
    run = await submit(house.mesh.client, written(tmp_path, DOORS), ROLES, doors=["front", "back"])
    back, front = await house.questions(run, 2)
    await house.decide(back, "approve")
    await house.begun("back approved")
    await house.mesh.client.cancel(run.run_id)
    assert (await run.result(timeout=20)).state == CANCELED
    assert [each for each in await house.mesh.client.list_questions() if each.run_id == run.run_id] == []
    with pytest.raises(FailedPrecondition):
        await house.decide(front, "approve")


async def test_a_fork_after_a_rejection_asks_again_and_keeps_what_was_approved(house: House, tmp_path: Path) -> None:
    run = await submit(house.mesh.client, written(tmp_path, DOORS), ROLES, doors=["front", "back"])
    back, front = await house.questions(run, 2)
    await house.decide(back, "approve")
    await house.begun("back approved")
    await house.decide(front, "reject", "not today")
    assert (await run.result(timeout=20)).state == FAILED
    fork = await house.mesh.client.fork(run.run_id)
    (again,) = await house.questions(fork, 1)
    assert again.prompt[0].text == "Open front?"
    await house.decide(again, "approve")
    assert answer_text(await fork.result(timeout=20)) == "front approved, back approved"
    assert house.worked.count("back approved") == 1


async def test_an_orchestrator_that_dies_within_a_loop_keeps_each_decision(own_mesh: Mesh, tmp_path: Path) -> None:
    mesh, house = own_mesh, House(own_mesh)
    async with Joined(mesh, troupe_of(house)):
        run = await submit(mesh.client, written(tmp_path, DOORS), ROLES, doors=["front", "back"])
        back, _ = await house.questions(run, 2)
        await house.decide(back, "approve")
        await house.begun("back approved")
        await mesh.orchestrator.kill()
        await mesh.orchestrator.start()
        (front,) = await house.questions(run, 1)
        await house.decide(front, "approve")
        assert answer_text(await ended(mesh, run.run_id)) == "front approved, back approved"


async def test_a_retry_within_a_loop_repeats_its_item_alone(house: House, tmp_path: Path) -> None:
    text = (
        "name: x\nparameters: {items: {type: list}}\nsteps:\n- for_each: '{{ items }}'\n  save_as: done\n  steps:\n"
        "  - {role: porter, task: 'do {{ item }}', on_error: {retry: 2}}\n- {role: porter, task: '{{ done | length }}'}"
    )
    house.fail["do b"] = 2
    run = await submit(house.mesh.client, written(tmp_path, text), ROLES, items=["a", "b", "c"])
    assert answer_text(await run.result(timeout=20)) == "3"
    assert Counter(house.worked) == {"do a": 1, "do b": 3, "do c": 1, "3": 1}


async def test_an_error_branch_that_asks_a_person(house: House, tmp_path: Path) -> None:
    text = (
        "name: x\nsteps:\n- {role: porter, task: book, save_as: b, on_error: {steps: "
        "[{approve: 'Without it: {{ error.message }}?'}]}}\n- {role: porter, task: 'end {{ b }}'}"
    )
    house.fail["book"] = 1
    run = await submit(house.mesh.client, written(tmp_path, text), ROLES)
    (asked,) = await house.questions(run, 1)
    assert asked.prompt[0].text == "Without it: cannot book?"
    await house.decide(asked, "approve")
    assert answer_text(await run.result(timeout=20)) == "end approved"


async def test_the_time_of_a_run_stands_still_while_its_loop_waits_for_a_person(own_mesh: Mesh, tmp_path: Path) -> None:
    mesh, house = own_mesh, House(own_mesh)
    async with Joined(mesh, troupe_of(house)):
        workflow = written(tmp_path, DOORS)
        run = await mesh.client.submit(
            goal_of(workflow, {"doors": ["front"]}), strategy="plan", planner=ROLE, roles=ROLES, timeout=30
        )
        (front,) = await house.questions(run, 1)
        await mesh.advance(40)
        await house.decide(front, "approve")
        assert answer_text(await run.result(timeout=20)) == "front approved"


@pytest.mark.parametrize("budget", [Budget(max_model_calls=3), Budget(max_tokens=30)], ids=["calls", "tokens"])
async def test_a_budget_that_is_used_up_ends_a_plan_in_the_middle_of_its_loop(
    mesh: Mesh, troupe: Troupe, tmp_path: Path, budget: Budget
) -> None:
    async def think(task: TaskContext) -> str:
        await task.reserve(tokens=10)
        usage = Usage(input_tokens=10, model_calls=1)
        task.record_model_call("scripted", {}, {}, started=0.0, seconds=0.0, usage=usage)
        return task.text

    await troupe(ROLE, handle, tools=[Tool("approve")], planner=True)
    await troupe("thinker", think)
    text = (
        "name: x\nparameters: {items: {type: list}}\nsteps:\n- for_each: '{{ items }}'\n  in_order: true\n  steps:\n"
        "  - {role: thinker, task: '{{ item }}'}"
    )
    goal = goal_of(written(tmp_path, text), {"items": list("abcdef")})
    run = await mesh.client.submit(goal, strategy="plan", planner=ROLE, roles=["thinker"], budget=budget)
    done = await run.result(timeout=20)
    assert (done.state, done.usage.model_calls) == (FAILED, 3)
    assert "insufficient budget of the run: 0 of" in done.proto.failure.message


async def test_a_delegate_below_a_step_has_the_budget_of_the_run(mesh: Mesh, troupe: Troupe, tmp_path: Path) -> None:
    refused: list[ArchonError] = []

    async def lead(task: TaskContext) -> str:
        try:
            return (await task.delegate("think", role="thinker")).text
        except ArchonError as error:
            refused.append(error)
            return "without help"

    async def think(task: TaskContext) -> str:
        await task.reserve(tokens=5_000)
        return "thought"

    await troupe(ROLE, handle, tools=[Tool("approve")], planner=True)
    await troupe("lead", lead)
    await troupe("thinker", think)
    goal = goal_of(written(tmp_path, "name: x\nsteps: [{role: lead, task: go}]"), {})
    arguments: dict[str, Any] = {"strategy": "plan", "planner": ROLE, "roles": ["lead", "thinker"]}
    run = await mesh.client.submit(goal, budget=Budget(max_tokens=4_000), **arguments)
    assert answer_text(await run.result(timeout=20)) == "without help"
    assert [type(error) for error in refused] == [BudgetExhausted]
    run = await mesh.client.submit(goal, budget=Budget(max_tokens=40_000), **arguments)
    assert answer_text(await run.result(timeout=20)) == "thought"


async def test_a_request_id_stands_for_one_version_of_a_workflow(house: House, tmp_path: Path) -> None:
    before = written(tmp_path, "name: x\nsteps: [{role: porter, task: one}]")
    request_id = uuid.uuid4().hex
    arguments: dict[str, Any] = {"strategy": "plan", "planner": ROLE, "roles": ROLES, "request_id": request_id}
    first = await house.mesh.client.submit(goal_of(before, {}), **arguments)
    again = await house.mesh.client.submit(goal_of(before, {}), **arguments)
    assert again.run_id == first.run_id
    after = written(tmp_path, "name: x\nsteps: [{role: porter, task: two}]")
    with pytest.raises(RequestIdReused):
        await house.mesh.client.submit(goal_of(after, {}), **arguments)
    assert answer_text(await first.result(timeout=20)) == "one"


async def test_a_workflow_within_a_loop_may_have_nothing_to_do(house: House, tmp_path: Path) -> None:
    (tmp_path / "inner.yaml").write_text(
        "name: inner\nparameters: {n: {type: integer}}\nsteps:\n- if: '{{ n > 1 }}'\n"
        "  then: [{role: porter, task: 'inner {{ n }}'}]"
    )
    text = (
        "name: x\nparameters: {numbers: {type: list}}\nsteps:\n- for_each: '{{ numbers }}'\n  save_as: got\n  steps:\n"
        "  - {workflow: inner, args: {n: '{{ item }}'}}\n- {role: porter, task: '{{ got | length }} {{ got[1] }}'}"
    )
    run = await submit(house.mesh.client, written(tmp_path, text), ROLES, numbers=[1, 2, 3])
    assert answer_text(await run.result(timeout=20)) == "3 inner 2"
    assert sorted(house.worked) == ["3 inner 2", "inner 2", "inner 3"]


async def test_a_step_that_asks_and_is_edited_out_of_the_plan_takes_its_question_back(
    mesh: Mesh, troupe: Troupe
) -> None:
    async def plan(task: TaskContext) -> str:
        assert task.plan_request is not None
        if task.plan_request.synthesise:
            return "done"
        steps = [
            {"id": "a", "role": "asker", "description": "ask"},
            {"id": "b", "role": "asker", "description": "wait", "dependencies": ["a"]},
        ]
        return json.dumps({"goal": "x", "subtasks": steps})

    async def ask(task: TaskContext) -> str | Question:
        return task.input_text or Question("Which colour?")

    await troupe("drafter", plan, planner=True)
    await troupe("asker", ask)
    run = await mesh.client.submit("x", strategy="plan", planner="drafter", roles=["asker"])
    house = House(mesh)
    (asked,) = await house.questions(run, 1)
    await mesh.client.respond(run.run_id, asked.input_id, "blue")
    (second,) = await house.questions(run, 1)
    assert second.input_id != asked.input_id
    await mesh.client.respond(run.run_id, second.input_id, "red")
    assert (await run.result(timeout=20)).state == COMPLETED


async def test_a_fork_of_a_run_in_a_session_reads_the_answers_of_then(mesh: Mesh, troupe: Troupe) -> None:
    session = uuid.uuid4().hex
    version = iter(range(1, 9))

    async def source(task: TaskContext) -> str:
        return f"source {next(version)}"

    fail = Counter({"first": 1})

    async def reader(task: TaskContext) -> str:
        if fail[task.text]:
            fail[task.text] -= 1
            raise InvalidArgument("not yet")
        return " ".join(item.text for item in task.context)

    await troupe("source", source)
    await troupe("reader", reader, depends_on=["source"])
    await (await mesh.client.submit("x", roles=["source"], session_id=session)).result(timeout=20)
    failed = await mesh.client.submit("first", roles=["reader"], session_id=session)
    assert (await failed.result(timeout=20)).state == FAILED
    await (await mesh.client.submit("x", roles=["source"], session_id=session)).result(timeout=20)
    fork = await mesh.client.fork(failed.run_id)
    assert answer_text(await fork.result(timeout=20)) == "source 1"
    fresh = await mesh.client.submit("second", roles=["reader"], session_id=session)
    assert answer_text(await fresh.result(timeout=20)) == "source 2"


async def test_a_stateful_role_asks_a_person_and_remembers_the_answer(mesh: Mesh, troupe: Troupe) -> None:
    async def ask(task: TaskContext) -> str | Question:
        if not task.inputs and not task.history:
            return Question("Which colour?")
        return f"{task.input_text or 'none'} after {len(task.history)}"

    await troupe("painter", ask, stateful=True)
    session, house = uuid.uuid4().hex, House(mesh)
    first = await mesh.client.submit("paint", roles=["painter"], session_id=session)
    (asked,) = await house.questions(first, 1)
    await mesh.client.respond(first.run_id, asked.input_id, "blue")
    assert answer_text(await first.result(timeout=20)) == "blue after 0"
    second = await mesh.client.submit("again", roles=["painter"], session_id=session)
    assert answer_text(await second.result(timeout=20)) == "none after 2"


async def test_a_watcher_resumes_within_a_loop_and_sees_each_event_once(house: House, tmp_path: Path) -> None:
    run = await submit(house.mesh.client, written(tmp_path, DOORS), ROLES, doors=["front", "back"])
    back, front = await house.questions(run, 2)
    seen: list[int] = []
    async for event in house.mesh.client.watch(run.run_id):
        if event.seq:
            seen.append(event.seq)
        if event.type == "input_requested" or event.type == "approval_requested":
            break
    await house.decide(back, "approve")
    await house.decide(front, "approve")
    async for event in house.mesh.client.watch(run.run_id, after_seq=seen[-1]):
        if event.seq:
            seen.append(event.seq)
    assert seen == list(range(1, len(seen) + 1))


async def test_metadata_reaches_each_step_and_each_delegate(mesh: Mesh, troupe: Troupe, tmp_path: Path) -> None:
    seen: dict[str, str] = {}

    async def lead(task: TaskContext) -> str:
        seen["lead"] = task.metadata["ticket"]
        return (await task.delegate("think", role="thinker")).text

    async def think(task: TaskContext) -> str:
        seen["thinker"] = task.metadata["ticket"]
        return "thought"

    await troupe(ROLE, handle, tools=[Tool("approve")], planner=True)
    await troupe("lead", lead)
    await troupe("thinker", think)
    goal = goal_of(written(tmp_path, "name: x\nsteps: [{role: lead, task: go}]"), {})
    run = await mesh.client.submit(
        goal, strategy="plan", planner=ROLE, roles=["lead", "thinker"], metadata={"ticket": "4711"}
    )
    assert answer_text(await run.result(timeout=20)) == "thought"
    assert seen == {"lead": "4711", "thinker": "4711"}


async def test_an_agent_that_drains_within_a_loop_hands_its_items_on(
    mesh: Mesh, troupe: Troupe, tmp_path: Path
) -> None:
    began, go_on = asyncio.Event(), asyncio.Event()

    async def slow(task: TaskContext) -> str:
        began.set()
        await go_on.wait()
        return f"slow {task.text}"

    async def quick(task: TaskContext) -> str:
        return f"quick {task.text}"

    await troupe(ROLE, handle, tools=[Tool("approve")], planner=True)
    first = await troupe("mover", slow, max_tasks=1)
    text = (
        "name: x\nparameters: {items: {type: list}}\nsteps:\n- for_each: '{{ items }}'\n  save_as: got\n  steps:\n"
        "  - {role: mover, task: '{{ item }}'}\n- {role: mover, task: '{{ got | join(\" \") }}'}"
    )
    run = await submit(mesh.client, written(tmp_path, text), ["mover", ROLE], items=["a", "b"])
    await began.wait()
    await troupe("mover", quick)
    stopping = asyncio.create_task(first.stop(10.0))
    go_on.set()
    await stopping
    done = await run.result(timeout=20)
    assert answer_text(done) == "quick slow a quick b"


async def test_items_of_a_loop_with_strange_names_are_whole_in_answer_and_events(house: House, tmp_path: Path) -> None:
    items = ["a/b", "ü ß 漢字", '"quoted"', "{{ not a template }}", "line\nbreak", "-1", ""]
    text = (
        "name: x\nparameters: {items: {type: list}}\nsteps:\n- for_each: '{{ items }}'\n  save_as: got\n  steps:\n"
        "  - {role: porter, task: 'item [{{ item }}]'}\n- {role: porter, task: '{{ got | tojson }}'}"
    )
    run = await submit(house.mesh.client, written(tmp_path, text), ROLES, items=items)
    done = await run.result(timeout=20)
    assert json.loads(answer_text(done)) == [f"item [{item}]" for item in items]


@pytest.mark.slow
async def test_a_loop_goes_on_at_the_other_replica_when_its_owner_dies(replicas: Replicas, tmp_path: Path) -> None:
    house = House(replicas)
    async with Joined(replicas, troupe_of(house)):
        run = await submit(replicas.client, written(tmp_path, DOORS), ROLES, doors=["front", "back"])
        back, front = await house.questions(run, 2)
        run_id, other = run.run_id, replicas.other
        await other.respond(run_id, back.input_id, decision="approve")
        await house.begun("back approved")
        await replicas.orchestrator.kill()

        async def accepted() -> bool:
            try:
                await other.respond(run_id, front.input_id, decision="approve", request_id="front")
            except ArchonError:
                return False  # the other replica has not taken the run over yet
            return True

        await eventually(accepted)

        async def has_ended() -> bool:
            return (await other.get(run_id)).state.final

        await eventually(has_ended)
        assert answer_text(await other.get(run_id)) == "front approved, back approved"
        assert house.worked.count("back approved") == 1


async def ended(mesh: Mesh, run_id: str) -> Run:
    async def has_ended() -> bool:
        return (await mesh.client.get(run_id)).state.final

    await eventually(has_ended)
    return await mesh.client.get(run_id)


Join = Callable[[Troupe], Awaitable[None]]


def troupe_of(house: House) -> Join:
    async def join(troupe: Troupe) -> None:
        await troupe(ROLE, handle, tools=[Tool("approve")], planner=True)
        await troupe("porter", house.work)

    return join


class Joined:
    """Agents in a mesh of a test's own."""

    def __init__(self, mesh: Mesh, join: Join) -> None:
        from contextlib import AsyncExitStack

        self._stack, self._mesh, self._join = AsyncExitStack(), mesh, join

    async def __aenter__(self) -> None:
        await self._join(Troupe(self._mesh, self._stack))

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()
