"""Breakpoints over a real mesh: holds before tasks, tools and models, and what survives the death of processes."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from archon import context
from archon.agent import AgentServer, TaskContext
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.client import RunHandle, answer_text
from archon.errors import FailedPrecondition, InvalidArgument, PermissionDenied, UnknownRun
from archon.principal import Kind, Principal
from archon.types import RunQuestion, TaskState
from archon_mesh.agent import Agent
from archon_mesh.core.messages import ToolCall
from archon_mesh.core.people import Condition, InterceptionRule, Trigger
from archon_mesh.llm import ModelRequest, ScriptedModel
from archon_mesh.node.handler import agent_handler
from archon_services.orchestrator.api.breakpoints import PAUSE, requested_breakpoints
from tests.fixtures.mesh import Mesh
from tests.fixtures.waiting import eventually
from tests.integration.services.orchestrator.troupe import Troupe, durable, of


def name(role: str) -> str:
    return f"{role}-{uuid.uuid4().hex[:6]}"


async def held(mesh: Mesh, handle: RunHandle, breakpoint: str = "") -> RunQuestion:
    """Waits until the run is held, and returns the hold, of that breakpoint if one is named."""
    found: list[RunQuestion] = []

    async def look() -> bool:
        questions = (await mesh.client.get(handle.run_id)).questions
        found[:] = [each for each in questions if each.breakpoint and breakpoint in ("", each.breakpoint)]
        return bool(found)

    await eventually(look)
    return found[0]


async def go_on(mesh: Mesh, handle: RunHandle, breakpoint: str, text: str = "") -> RunQuestion:
    """Lets the run go on from a hold, with what replaces what waits."""
    question = await held(mesh, handle, breakpoint)
    await mesh.client.respond(handle.run_id, question.input_id, text, decision="modify" if text else "approve")
    return question


class Clerk:
    """An agent whose model calls `add` twice in a row, and then answers with both results; it counts its calls."""

    def __init__(self, **options: Any) -> None:
        self.prompts: list[ModelRequest] = []
        self.added: list[tuple[int, int]] = []
        self.agent = Agent("clerk", model=ScriptedModel(self._reply), tools=[self._tool()], **options)

    def _tool(self) -> Callable[[int, int], int]:
        def add(a: int, b: int) -> int:
            """Adds."""
            self.added.append((a, b))
            return a + b

        return add

    def _reply(self, request: ModelRequest) -> str | list[ToolCall]:
        self.prompts.append(request)
        results = [message.content for message in request.messages if message.role == "tool"]
        if len(results) < 2:
            return [ToolCall(f"c{len(results)}", "add", json.dumps({"a": len(results), "b": 1}))]
        return f"sums {' and '.join(results)}"

    async def join(self, troupe: Troupe, role: str) -> AgentServer:
        return await troupe(role, agent_handler(self.agent, memory=""), holds_breakpoints=True)


async def test_a_tool_is_held_each_time_and_its_arguments_replaced(mesh: Mesh, troupe: Troupe) -> None:
    role, clerk = name("clerk"), Clerk()
    await clerk.join(troupe, role)
    handle = await mesh.client.submit("x", roles=[role], breakpoints=["tool:ad*"])
    question = await held(mesh, handle)
    assert json.loads(question.subject_json) == {"tool": "add", "arguments": {"a": 0, "b": 1}}
    assert question.is_approval and question.expire_time == 0.0
    (task,) = (await mesh.client.get(handle.run_id)).tasks
    assert task.state == TaskState.INPUT_REQUIRED, "no slot and no process waits"
    with pytest.raises(InvalidArgument):
        await mesh.client.respond(handle.run_id, question.input_id, '{"a": "all"}', decision="modify")
    await go_on(mesh, handle, "tool:ad*", '{"a": 20, "b": 3}')
    await go_on(mesh, handle, "tool:ad*")
    assert answer_text(await handle.result(timeout=15)) == "sums 23 and 2"
    assert (clerk.added, len(clerk.prompts)) == ([(20, 3), (1, 1)], 3), "nothing was done twice"


async def test_a_model_is_held_before_each_call_and_can_be_answered_for(mesh: Mesh, troupe: Troupe) -> None:
    role, clerk = name("clerk"), Clerk()
    await clerk.join(troupe, role)
    handle = await mesh.client.submit("x", roles=[role], breakpoints=[f"model:{role}"])
    for calls in range(2):
        question = await held(mesh, handle)
        assert (len(clerk.prompts), len(clerk.added)) == (calls, calls)
        assert json.loads(question.subject_json)["messages"][-1]["content"] == ("x", "1")[calls]
        await go_on(mesh, handle, f"model:{role}")

        async def is_past(number: int = calls + 2) -> bool:
            questions = (await mesh.client.get(handle.run_id)).questions
            return any(question.input_id.endswith(f"/m{number}") for question in questions)

        await eventually(is_past)
    await go_on(mesh, handle, f"model:{role}", '{"answer": "three"}')
    assert answer_text(await handle.result(timeout=15)) == "three"
    assert (len(clerk.prompts), clerk.added) == (2, [(0, 1), (1, 1)])


async def test_calls_of_one_reply_are_held_one_by_one_and_each_once(mesh: Mesh, troupe: Troupe) -> None:
    made: list[str] = []

    def note(text: str) -> str:
        """Notes a text."""
        made.append(text)
        return text

    def reply(request: ModelRequest) -> str | list[ToolCall]:
        results = [message.content for message in request.messages if message.role == "tool"]
        calls = [ToolCall(f"c{each}", "note", json.dumps({"text": each})) for each in "abc"]
        return " ".join(results) if results else calls

    role, model = name("noter"), ScriptedModel(reply)
    await troupe(role, agent_handler(Agent("noter", model=model, tools=[note]), memory=""), holds_breakpoints=True)
    handle = await mesh.client.submit("x", roles=[role], breakpoints=["tool:note"])
    asked = [await go_on(mesh, handle, "tool:note", json.dumps({"text": each})) for each in "xyz"]
    assert answer_text(await handle.result(timeout=15)) == "x y z"
    assert [json.loads(each.subject_json)["arguments"]["text"] for each in asked] == ["a", "b", "c"]
    assert sorted(made) == ["x", "y", "z"] and len({each.input_id for each in asked}) == 3


async def test_two_tasks_are_held_at_a_time_and_go_on_apart(mesh: Mesh, troupe: Troupe) -> None:
    roles, clerks = [name("clerk"), name("clerk")], [Clerk(), Clerk()]
    for role, clerk in zip(roles, clerks, strict=True):
        await clerk.join(troupe, role)
    handle = await mesh.client.submit("x", roles=roles, strategy="pipeline", breakpoints=["model"])
    holds: dict[str, RunQuestion] = {}

    async def both() -> bool:
        holds.update({each.role: each for each in (await mesh.client.get(handle.run_id)).questions})
        return len(holds) == 2

    await eventually(both)
    await mesh.client.respond(handle.run_id, holds[roles[0]].input_id, '{"answer": "one"}', decision="modify")
    (left,) = (await mesh.client.get(handle.run_id)).questions
    assert (left.role, clerks[1].prompts) == (roles[1], [])
    await mesh.client.respond(handle.run_id, left.input_id, '{"answer": "two"}', decision="modify")
    assert {answer.text for answer in (await handle.result(timeout=15)).answers} == {"one", "two"}


async def test_a_modification_counts_though_its_breakpoint_was_removed(mesh: Mesh, troupe: Troupe) -> None:
    role, clerk = name("clerk"), Clerk()
    await clerk.join(troupe, role)
    handle = await mesh.client.submit("x", roles=[role], breakpoints=["tool:add"])
    question = await held(mesh, handle)
    assert (await mesh.client.set_breakpoints(handle.run_id, [])).breakpoints == []
    await mesh.client.respond(handle.run_id, question.input_id, '{"a": 20, "b": 3}', decision="modify")
    assert answer_text(await handle.result(timeout=15)) == "sums 23 and 2"
    set_, removed = of(await durable(handle), "breakpoints_set")
    assert (len(set_.breakpoints_set.breakpoints), len(removed.breakpoints_set.breakpoints)) == (1, 0)


async def test_a_rule_asks_after_a_breakpoint_of_the_same_call(mesh: Mesh, troupe: Troupe) -> None:
    rule = InterceptionRule(Trigger.TOOL, Condition(tool="add"), name="sums")
    role, clerk = name("clerk"), Clerk(rules=[rule])
    await clerk.join(troupe, role)
    handle = await mesh.client.submit("x", roles=[role], breakpoints=["tool:add"])
    for _ in range(2):
        await go_on(mesh, handle, "tool:add", '{"a": 7, "b": 0}')

        async def asks() -> bool:
            return any(not each.breakpoint for each in (await mesh.client.get(handle.run_id)).questions)

        await eventually(asks)
        (question,) = (await mesh.client.get(handle.run_id)).questions
        assert json.loads(question.subject_json)["arguments"] == {"a": 7, "b": 0}
        await mesh.client.respond(handle.run_id, question.input_id, decision="approve")
    assert answer_text(await handle.result(timeout=15)) == "sums 7 and 7"
    assert len(clerk.prompts) == 3


async def test_a_task_is_held_and_gets_another_input_or_an_answer(mesh: Mesh, troupe: Troupe) -> None:
    first, second, third = name("first"), name("second"), name("third")
    done: list[str] = []

    async def work(task: TaskContext) -> str:
        done.append(task.role)
        return f"{task.role.partition('-')[0]}: {task.text}, {[item.text for item in task.context]}"

    await troupe(first, work)
    await troupe(second, work, depends_on=[first])
    await troupe(third, work, depends_on=[second])
    handle = await mesh.client.submit("x", roles=[first, second, third], breakpoints=["task:first*", f"task:{second}"])
    question = await held(mesh, handle)
    assert done == []
    with pytest.raises(InvalidArgument):
        await mesh.client.respond(handle.run_id, question.input_id, "no object", decision="modify")
    await go_on(mesh, handle, "task:first*", '{"input": "y"}')
    await go_on(mesh, handle, f"task:{second}", '{"answer": "two"}')
    assert answer_text(await handle.result(timeout=15)) == "third: x, ['two']"
    assert done == [first, third]
    (given,) = [each for each in of(await durable(handle), "result") if each.result.role == second]
    assert (given.task.attempt, given.result.no_publish) == (0, False)


async def test_a_rejection_at_a_breakpoint_fails_the_run(mesh: Mesh, troupe: Troupe) -> None:
    role, clerk = name("clerk"), Clerk()
    await clerk.join(troupe, role)
    for point in ("tool:add", "model", f"task:{role}"):
        handle = await mesh.client.submit("x", roles=[role], breakpoints=[point])
        question = await held(mesh, handle)
        await mesh.client.respond(handle.run_id, question.input_id, "wrong", decision="reject")
        run = await handle.result(timeout=15)
        assert run.state == TaskState.FAILED and run.failure is not None
        assert run.failure.reason == "APPROVAL_REJECTED"


async def test_a_runtime_that_cannot_hold_is_named_with_its_reason(mesh: Mesh, troupe: Troupe) -> None:
    plain = name("plain")

    async def work(task: TaskContext) -> str:
        assert task.breakpoints == (), "it is not sent what it cannot do"
        return "done"

    await troupe(plain, work)
    handle = await mesh.client.submit("x", roles=[plain], breakpoints=["tool:add", "model:other", "step:s"])
    run = await handle.result(timeout=15)
    tool, model, step = run.breakpoints
    ((unheld,), others) = tool.unheld, [*model.unheld, *step.unheld]
    assert (unheld.role, unheld.attempt, unheld.failure.reason, others) == (plain, 1, "BREAKPOINT_NOT_HELD", [])
    assert "cannot hold" in unheld.failure.message
    (dispatched,) = of(await durable(handle), "dispatched")
    assert dispatched.dispatched.ignores_breakpoints


async def test_an_attempt_in_progress_is_named_until_its_next_dispatch(mesh: Mesh, troupe: Troupe) -> None:
    role, clerk = name("clerk"), Clerk()
    await clerk.join(troupe, role)
    handle = await mesh.client.submit("x", roles=[role], breakpoints=["tool:add"])
    await held(mesh, handle)
    run = await mesh.client.set_breakpoints(handle.run_id, ["tool:add", "model"])
    assert [each.text for each in run.breakpoints] == ["tool:add", "model"]
    assert all(not each.unheld for each in run.breakpoints), "the next attempt holds"
    await go_on(mesh, handle, "tool:add")
    await go_on(mesh, handle, "model")
    await mesh.client.set_breakpoints(handle.run_id, [])
    await go_on(mesh, handle, "tool:add")
    assert answer_text(await handle.result(timeout=15)) == "sums 1 and 2"
    assert (len(clerk.added), len(clerk.prompts)) == (2, 3)


async def test_bad_breakpoints_are_refused(mesh: Mesh, troupe: Troupe) -> None:
    role = name("plain")

    async def work(task: TaskContext) -> str:
        return "done"

    await troupe(role, work)
    for text in ("tool", "tool:", "toll:x", "Task:x", "", "step: "):
        with pytest.raises(InvalidArgument, match="is no breakpoint"):
            await mesh.client.submit("x", roles=[role], breakpoints=[text])
    many = [f"tool:t{number}" for number in range(21)]
    for wrong in (many, [f"tool:{'x' * 257}"]):
        with pytest.raises(InvalidArgument):
            await mesh.client.submit("x", roles=[role], breakpoints=wrong)
    with pytest.raises(InvalidArgument, match=r"breakpoints\[0\].point"):
        await mesh.client._stub.SetBreakpoints(
            pb.SetBreakpointsRequest(run_id=await ended(mesh, role, unfinished=True), breakpoints=[{}])  # type: ignore[list-item]
        )
    with pytest.raises(FailedPrecondition, match="has ended"):
        await mesh.client.set_breakpoints(await ended(mesh, role), ["model"])
    with pytest.raises(UnknownRun):
        await mesh.client.set_breakpoints("0" * 32, ["model"])


async def ended(mesh: Mesh, role: str, *, unfinished: bool = False) -> str:
    """Returns a run that has ended, or that is held."""
    handle = await mesh.client.submit("x", roles=[role], breakpoints=[f"task:{role}"] if unfinished else [])
    if not unfinished:
        await handle.result(timeout=15)
    return handle.run_id


def test_only_callers_that_may_pause_runs_may_set_breakpoints() -> None:
    operator = Principal(Kind.OPERATOR, "ann")
    policy = {PAUSE: frozenset({Kind.ADMIN})}
    with context.serving(context.CallContext(principal=operator)), pytest.raises(PermissionDenied, match="PauseRun"):
        requested_breakpoints([], policy)
    with context.serving(context.CallContext(principal=Principal(Kind.ADMIN, "bob"))):
        assert requested_breakpoints([], policy) == ()


async def test_a_hold_survives_the_kill_of_its_orchestrator(own_mesh: Mesh) -> None:
    async with AsyncExitStack() as stack:
        clerk = Clerk()
        await clerk.join(Troupe(own_mesh, stack), "clerk")
        handle = await own_mesh.client.submit("x", roles=["clerk"], breakpoints=["tool:add", "task:clerk"])
        for point in ("task:clerk", "tool:add"):
            question = await held(own_mesh, handle, point)
            await own_mesh.orchestrator.kill()
            await own_mesh.orchestrator.start()
            assert (await held(own_mesh, handle, point)).input_id == question.input_id
            await go_on(own_mesh, handle, point)
        await go_on(own_mesh, handle, "tool:add")
        assert answer_text(await handle.result(timeout=15)) == "sums 1 and 2"
        assert (len(clerk.prompts), len(clerk.added)) == (3, 2)


@pytest.mark.slow
async def test_a_hold_survives_kills_of_agent_and_orchestrator(own_mesh: Mesh) -> None:
    process = await own_mesh.agent_process("payer", module="tests.fixtures.paying_agent", PAY_TIMEOUT="300")
    handle = await own_mesh.client.submit("x", roles=["payer"], breakpoints=["tool:note", "task:payer"])
    question = await held(own_mesh, handle, "task:payer")
    await own_mesh.orchestrator.kill()
    await own_mesh.orchestrator.start()
    assert (await held(own_mesh, handle, "task:payer")).input_id == question.input_id
    await go_on(own_mesh, handle, "task:payer")
    question = await held(own_mesh, handle, "tool:note")
    await process.kill()
    await own_mesh.orchestrator.kill()
    await own_mesh.orchestrator.start()
    assert (await held(own_mesh, handle, "tool:note")).input_id == question.input_id
    assert [each.text for each in (await own_mesh.client.get(handle.run_id)).breakpoints] == ["tool:note", "task:payer"]
    await own_mesh.agent_process("payer", module="tests.fixtures.paying_agent", PAY_TIMEOUT="300")
    await go_on(own_mesh, handle, "tool:note", '{"text": "y"}')

    async def asks_to_pay() -> bool:
        return any(not each.breakpoint for each in (await own_mesh.client.get(handle.run_id)).questions)

    await eventually(asks_to_pay, 20.0)
    (payment,) = (await own_mesh.client.get(handle.run_id)).questions
    await own_mesh.client.respond(handle.run_id, payment.input_id, decision="approve")
    assert answer_text(await handle.result(timeout=20)) == "noted y; paid 5"
    lines = own_mesh.ledger.read_text().splitlines()
    assert [line.split()[0] for line in lines].count("asked") == 1, "the model was called once"
