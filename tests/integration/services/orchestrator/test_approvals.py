"""Approvals over real processes: by rules of the mesh and of an agent, and the deaths of any process meanwhile."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from archon import context
from archon.agent import Question, TaskContext
from archon.api.common.v1 import failure_pb2, question_pb2
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.client import RunHandle, answer_text
from archon.errors import FailedPrecondition, InvalidArgument, PermissionDenied
from archon.types import RunQuestion, TaskState
from tests.fixtures.hook_server import HookServer
from tests.fixtures.mesh import Mesh
from tests.fixtures.tokens import TestKeys
from tests.fixtures.waiting import eventually
from tests.integration.services.orchestrator.troupe import Troupe, durable, of

COMPLETED = TaskState.COMPLETED
FAILED = TaskState.FAILED

RULES = """
rules:
  - {trigger: plan, name: plans, role: planner-asks*}
  - {trigger: plan, name: brief, role: planner-brief*, timeout: 0.5, on_timeout: default, default: approve}
  - {trigger: plan, name: aborts, role: planner-aborts*, timeout: 0.5}
  - {trigger: checkpoint, name: review, role: writer*}
  - {trigger: checkpoint, name: others, role: closed*, approvers: [ann]}
  - {trigger: error, name: errors, role: fragile*, severity_at_least: low}
"""


@pytest.fixture(scope="module")
async def mesh(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Mesh]:
    """A mesh with rules, without agents."""
    mesh = await _ruled(tmp_path_factory.mktemp("ruled"))
    yield mesh
    await mesh.stop()


@pytest.fixture
async def own_mesh(tmp_path: Path) -> AsyncIterator[Mesh]:
    """A mesh with rules for a test that kills processes."""
    mesh = await _ruled(tmp_path)
    yield mesh
    await mesh.stop()


async def _ruled(home: Path) -> Mesh:
    rules = home / "rules.yaml"
    rules.write_text(RULES)
    mesh = Mesh(home)
    await mesh.start(ARCHON_RULES=str(rules))
    return mesh


@pytest.fixture
async def troupe(mesh: Mesh) -> AsyncIterator[Troupe]:
    async with AsyncExitStack() as stack:
        yield Troupe(mesh, stack)


def name(role: str) -> str:
    return f"{role}-{uuid.uuid4().hex[:6]}"


async def asked(mesh: Mesh, handle: RunHandle) -> RunQuestion:
    """Waits until the run asks a question, and returns it."""
    questions: list[RunQuestion] = []

    async def look() -> bool:
        questions[:] = (await mesh.client.get(handle.run_id)).questions
        return bool(questions)

    await eventually(look, 15.0)
    return questions[0]


def plan(*steps: tuple[str, list[str]]) -> str:
    return json.dumps(
        {"goal": "g", "subtasks": [{"id": id, "description": f"do {id}", "dependencies": needs} for id, needs in steps]}
    )


class Planned:
    """A planner that replies two steps, and a worker that answers with the id of its step."""

    def __init__(self, planner: str) -> None:
        self.planner, self.worker = name(planner), name("worker")
        self.worked: list[str] = []
        self.inputs: list[str] = []
        self.reply = plan(("a", []), ("b", ["a"]))

    async def join(self, troupe: Troupe) -> None:
        await troupe(self.planner, self.plan)
        await troupe(self.worker, self.work)

    async def plan(self, task: TaskContext) -> str:
        self.inputs.append(task.text)
        return self.reply

    async def work(self, task: TaskContext) -> str:
        self.worked.append(task.step_id)
        return f"done {task.step_id}"

    async def submit(self, mesh: Mesh) -> RunHandle:
        return await mesh.client.submit("g", strategy="plan", planner=self.planner, roles=[self.worker])


async def test_an_approved_plan_begins(mesh: Mesh, troupe: Troupe) -> None:
    roles = Planned("planner-asks")
    await roles.join(troupe)
    handle = await roles.submit(mesh)
    question = await asked(mesh, handle)
    assert (question.is_approval, question.proto.terms.rule) == (True, "plans")
    assert [step.step_id for step in question.proto.plan.steps] == ["a", "b"]
    assert round(question.expire_time - question.create_time) == 300
    listed = [each for each in await mesh.client.list_questions() if each.run_id == handle.run_id]
    assert [each.input_id for each in listed] == [question.input_id]
    assert roles.worked == []
    await mesh.client.respond(handle.run_id, question.input_id, decision="approve")
    run = await handle.result(timeout=15)
    assert (run.state, roles.worked) == (COMPLETED, ["a", "b"])
    assert [each.state for each in run.closed_questions] == ["approved"]
    (given,) = of(await durable(handle), "input_given")
    assert (given.input_given.decision, given.input_given.identity) == (question_pb2.DECISION_APPROVE, "anonymous")


async def test_a_rejected_plan_stops_the_run(mesh: Mesh, troupe: Troupe) -> None:
    roles = Planned("planner-asks")
    await roles.join(troupe)
    handle = await roles.submit(mesh)
    question = await asked(mesh, handle)
    await mesh.client.respond(handle.run_id, question.input_id, "too much", decision="reject")
    run = await handle.result(timeout=15)
    assert (run.state, run.proto.failure.reason) == (FAILED, failure_pb2.ERROR_REASON_APPROVAL_REJECTED)
    assert roles.worked == []
    with pytest.raises(FailedPrecondition):
        await mesh.client.respond(handle.run_id, question.input_id, decision="approve")


async def test_a_person_gives_another_plan(mesh: Mesh, troupe: Troupe) -> None:
    roles = Planned("planner-asks")
    await roles.join(troupe)
    handle = await roles.submit(mesh)
    question = await asked(mesh, handle)
    for wrong in ("no plan", plan(("x", ["y"]), ("y", ["x"]))):
        with pytest.raises(InvalidArgument):
            await mesh.client.respond(handle.run_id, question.input_id, wrong, decision="modify")
    with pytest.raises(InvalidArgument, match="decision"):
        await mesh.client.respond(handle.run_id, question.input_id, "perhaps")
    await mesh.client.respond(handle.run_id, question.input_id, plan(("x", [])), decision="modify")
    run = await handle.result(timeout=15)
    assert (answer_text(run), roles.worked) == ("done x", ["x"])


async def test_silence_is_followed_by_the_policy(mesh: Mesh, troupe: Troupe) -> None:
    approved, aborted = Planned("planner-brief"), Planned("planner-aborts")
    await approved.join(troupe)
    await aborted.join(troupe)
    run = await (await approved.submit(mesh)).result(timeout=15)
    assert (run.state, approved.worked) == (COMPLETED, ["a", "b"])
    assert [each.state for each in run.closed_questions] == ["timed_out"]
    run = await (await aborted.submit(mesh)).result(timeout=15)
    assert (run.state, run.proto.failure.reason) == (FAILED, failure_pb2.ERROR_REASON_QUESTION_TIMED_OUT)
    assert aborted.worked == []


async def test_the_planners_own_question_is_one_of_the_run(mesh: Mesh, troupe: Troupe) -> None:
    roles = Planned("planner-free")
    roles.reply = '{"question": "For how many people?"}'
    await roles.join(troupe)
    handle = await roles.submit(mesh)
    question = await asked(mesh, handle)
    assert question.prompt[0].text == "For how many people?"
    roles.reply = plan(("a", []))
    await mesh.client.respond(handle.run_id, question.input_id, "for four")
    assert (await handle.result(timeout=15)).state == COMPLETED
    assert roles.inputs[-1] == "g\n\nYou asked: For how many people?\nThe answer: for four"


async def test_an_answer_waits_at_a_checkpoint_and_is_replaced(mesh: Mesh, troupe: Troupe) -> None:
    role = name("writer")

    async def write(task: TaskContext) -> str:
        return "a draft"

    await troupe(role, write)
    handle = await mesh.client.submit("x", roles=[role])
    question = await asked(mesh, handle)
    assert question.prompt[-1].text == "a draft"
    await mesh.client.respond(handle.run_id, question.input_id, "the final text", decision="modify")
    assert answer_text(await handle.result(timeout=15)) == "the final text"


async def test_a_severe_failure_is_tried_again_if_approved(mesh: Mesh, troupe: Troupe) -> None:
    role = name("fragile")

    async def work(task: TaskContext) -> str:
        if task.attempt == 1:
            raise InvalidArgument("the paper jams")
        return f"attempt {task.attempt}"

    await troupe(role, work)
    handle = await mesh.client.submit("x", roles=[role])
    question = await asked(mesh, handle)
    assert "the paper jams" in question.text
    await mesh.client.respond(handle.run_id, question.input_id, "yes")
    assert answer_text(await handle.result(timeout=15)) == "attempt 2"


async def test_only_an_approver_may_answer(mesh: Mesh, troupe: Troupe) -> None:
    role = name("closed")

    async def work(task: TaskContext) -> str:
        return "secret"

    await troupe(role, work)
    handle = await mesh.client.submit("x", roles=[role])
    question = await asked(mesh, handle)
    assert list(question.approvers) == ["ann"]
    with pytest.raises(PermissionDenied), context.serving(replace(context.current(), identity="ann")):
        # The identity that a client claims is not vouched for by a secret of the mesh.
        await mesh.client.respond(handle.run_id, question.input_id, decision="approve")
    assert (await mesh.client.get(handle.run_id)).questions, "it changes nothing"
    await mesh.client.cancel(handle.run_id)
    run = await handle.result(timeout=15)
    assert [each.state for each in run.closed_questions] == ["cancelled"]


async def test_an_approver_is_vouched_for_by_the_token_of_a_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in TestKeys(tmp_path).environment().items():
        monkeypatch.setenv(name, value)
    (tmp_path / "rules.yaml").write_text(RULES)
    mesh = Mesh(tmp_path)
    async with AsyncExitStack() as stack:
        await mesh.start(ARCHON_RULES=str(tmp_path / "rules.yaml"))
        stack.push_async_callback(mesh.stop)
        await mesh.agent("closed")
        handle = await mesh.client.submit("x", roles=["closed"])
        question = await asked(mesh, handle)
        with context.serving(replace(context.current(), identity="eve")), pytest.raises(PermissionDenied):
            await mesh.client.respond(handle.run_id, question.input_id, decision="approve")
        with context.serving(replace(context.current(), identity="ann")):
            await mesh.client.respond(handle.run_id, question.input_id, decision="approve")
        assert (await handle.result(timeout=15)).state == COMPLETED
        (given,) = of(await durable(handle), "input_given")
        assert given.input_given.identity == "ann"


async def test_the_questions_of_many_runs_are_listed_in_pages(mesh: Mesh, troupe: Troupe) -> None:
    role = name("clerk")

    async def ask(task: TaskContext) -> str | Question:
        return "done" if task.inputs else Question(f"about {task.text}?")

    await troupe(role, ask)
    handles = [await mesh.client.submit(f"{number}", roles=[role]) for number in range(3)]
    expected = {(await asked(mesh, handle)).input_id for handle in handles}
    listed: list[RunQuestion] = []
    token, pages = "", 0
    while pages == 0 or token:
        page = await mesh.client._stub.ListQuestions(pb.ListQuestionsRequest(page_size=1, page_token=token), timeout=10)
        listed += map(RunQuestion, page.questions)
        token, pages = page.next_page_token, pages + 1
    mine = [question for question in listed if question.role == role]
    assert {question.input_id for question in mine} == expected
    assert [question.prompt[0].text for question in mine] == ["about 2?", "about 1?", "about 0?"]
    assert pages >= 3
    with pytest.raises(InvalidArgument):
        await mesh.client._stub.ListQuestions(pb.ListQuestionsRequest(page_token="x"), timeout=10)
    for handle, question in zip(reversed(handles), mine, strict=True):
        await mesh.client.respond(handle.run_id, question.input_id, "so")
        await handle.result(timeout=15)


def lines(mesh: Mesh, verb: str) -> int:
    text = mesh.ledger.read_text() if mesh.ledger.exists() else ""
    return sum(line.startswith(f"{verb} ") for line in text.splitlines())


async def paying(mesh: Mesh, timeout: float = 300.0, default: str = "") -> tuple[Any, RunHandle]:
    """Starts an agent that asks before it pays, and a run of it."""
    process = await mesh.agent_process(
        "payer",
        module="tests.fixtures.paying_agent",
        PAY_TIMEOUT=str(timeout),
        PAY_POLICY="default" if default else "abort",
        PAY_DEFAULT=default,
    )
    return process, await mesh.client.submit("x", roles=["payer"])


async def test_an_approved_tool_is_called_and_no_other_again(own_mesh: Mesh) -> None:
    _, handle = await paying(own_mesh)
    question = await asked(own_mesh, handle)
    assert json.loads(question.subject_json) == {"tool": "pay", "arguments": {"amount": 5}}
    (task,) = (await own_mesh.client.get(handle.run_id)).tasks
    assert task.state == TaskState.INPUT_REQUIRED
    with pytest.raises(InvalidArgument):
        await own_mesh.client.respond(handle.run_id, question.input_id, '{"amount": "all"}', decision="modify")
    await own_mesh.client.respond(handle.run_id, question.input_id, '{"amount": 3}', decision="modify")
    assert answer_text(await handle.result(timeout=15)) == "noted x; paid 3"
    assert (lines(own_mesh, "asked"), lines(own_mesh, "note"), lines(own_mesh, "pay")) == (1, 1, 1)


async def test_a_rejected_tool_stops_the_run(own_mesh: Mesh) -> None:
    _, handle = await paying(own_mesh)
    question = await asked(own_mesh, handle)
    await own_mesh.client.respond(handle.run_id, question.input_id, "never", decision="reject")
    run = await handle.result(timeout=15)
    assert (run.state, run.proto.failure.reason) == (FAILED, failure_pb2.ERROR_REASON_APPROVAL_REJECTED)
    assert (lines(own_mesh, "note"), lines(own_mesh, "pay")) == (1, 0)


async def test_silence_about_a_tool_times_out_to_its_default(own_mesh: Mesh) -> None:
    _, handle = await paying(own_mesh, 0.5, "approve")
    assert answer_text(await handle.result(timeout=15)) == "noted x; paid 5"


async def test_a_killed_agent_leaves_its_question_to_another(own_mesh: Mesh) -> None:
    process, handle = await paying(own_mesh)
    question = await asked(own_mesh, handle)
    await process.kill()
    await own_mesh.agent_process("payer", module="tests.fixtures.paying_agent")
    await own_mesh.client.respond(handle.run_id, question.input_id, decision="approve")
    assert answer_text(await handle.result(timeout=20)) == "noted x; paid 5"
    assert (lines(own_mesh, "asked"), lines(own_mesh, "note"), lines(own_mesh, "pay")) == (1, 1, 1)


@pytest.mark.slow
@pytest.mark.liveness
async def test_a_killed_orchestrator_keeps_question_and_time(own_mesh: Mesh) -> None:
    _, handle = await paying(own_mesh, 6.0, "approve")
    question = await asked(own_mesh, handle)
    await own_mesh.orchestrator.kill()
    await own_mesh.orchestrator.start()
    again = await asked(own_mesh, handle)
    assert (again.input_id, again.expire_time) == (question.input_id, question.expire_time)
    assert answer_text(await handle.result(timeout=25)) == "noted x; paid 5"


async def test_a_killed_planner_loses_no_plan_that_waits(own_mesh: Mesh) -> None:
    reply = json.dumps([json.loads(plan(("a", []), ("b", ["a"])))])
    process = await own_mesh.agent_process("planner-asks-p", module="tests.fixtures.planning_agent", PLANS=reply)
    await own_mesh.agent("worker")
    handle = await own_mesh.client.submit("g", strategy="plan", planner="planner-asks-p", roles=["worker"])
    question = await asked(own_mesh, handle)
    await process.kill()
    await own_mesh.client.respond(handle.run_id, question.input_id, decision="approve")
    assert (await handle.result(timeout=20)).state == COMPLETED
    assert own_mesh.executions("begin").count(("planner-asks-p", 1)) == 1


@pytest.mark.liveness
async def test_people_are_notified_again_after_a_takeover(tmp_path: Path) -> None:
    mesh = Mesh(tmp_path)
    async with HookServer() as server, AsyncExitStack() as stack:
        await mesh.start(ARCHON_WEBHOOK_URL=server.url, ARCHON_WEBHOOK_SECRET="a secret of this test only")
        stack.push_async_callback(mesh.stop)
        _, handle = await paying(mesh)
        question = await asked(mesh, handle)

        async def told(times: int) -> bool:
            return len(server.requests) >= times

        await eventually(lambda: told(1), 10.0)
        await mesh.orchestrator.kill()
        await mesh.orchestrator.start()
        await eventually(lambda: told(2), 20.0)
        ids = {headers["webhook-id"] for headers, _ in server.requests}
        assert ids == {f"{question.input_id}#0"}, "the receiver can tell that it is the same"
        data = json.loads(server.requests[0][1])["data"]
        assert (data["run_id"], data["role"]) == (handle.run_id, "payer")
        await mesh.client.respond(handle.run_id, question.input_id, decision="approve")
        with pytest.raises(FailedPrecondition):  # of another person, whom another channel has told
            await mesh.client.respond(handle.run_id, question.input_id, decision="reject")
        assert (await handle.result(timeout=15)).state == COMPLETED
