"""An arbiter in a mesh: each way to settle a conflict, what is asked again after a crash, and work that is done again."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import asdict
from typing import Any

import pytest

from archon.agent import AgentServer, TaskContext
from archon.api.common.v1 import failure_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.client import RunHandle, answer_text
from archon.errors import ArchonError, InvalidArgument
from archon.types import RunQuestion, TaskState, Verdict
from archon_mesh.agent import Agent
from archon_mesh.llm import ScriptedModel, create_model
from archon_mesh.node import Arbitration, arbiter_handler
from archon_mesh.node.arbiter.options import OPTION_PREFIX
from archon_mesh.planning import SubTask, settled
from tests.fixtures.mesh import Mesh
from tests.fixtures.services import ServiceProcess
from tests.fixtures.waiting import eventually, until
from tests.integration.services.orchestrator.troupe import Troupe, durable, of

QUESTION = "How many arches has the bridge?"


class Team:
    """Two researchers who disagree, a validator, a reviewer and an arbiter. `asked` has who was asked for what."""

    def __init__(self, *answers: str, **replies: str | ArchonError | asyncio.Event) -> None:
        number = uuid.uuid4().hex[:6]
        self.researchers = [f"researcher-{letter}-{number}" for letter in "abc"[: len(answers) or 2]]
        self.answers = answers or ("12", "14")
        self.arbiter, self.validator, self.reviewer = (f"{name}-{number}" for name in ("arbiter", "valid", "review"))
        self.replies = replies
        self.asked: list[str] = []
        self.requests: dict[str, str] = {}

    async def join(self, troupe: Troupe, arbiter: Any = None, **options: Any) -> AgentServer:
        """Starts all roles; returns the arbiter."""
        await self.join_without_arbiter(troupe)
        given = {"verifier": self.validator, "reviewer": self.reviewer, **options}
        return await troupe(self.arbiter, arbiter or arbiter_handler(None, Arbitration(**given)))

    async def join_without_arbiter(self, troupe: Troupe) -> None:
        for index, role in enumerate(self.researchers):
            await troupe(role, self._researcher(index))
        await troupe(self.validator, self._replying("check"))
        await troupe(self.reviewer, self._replying("review"))

    def _researcher(self, index: int) -> Callable[[TaskContext], Any]:
        name = "abc"[index]

        async def work(task: TaskContext) -> str:
            if task.step_id:
                return self.answers[index]
            purpose = "redo" if "Do the work again" in task.text else "method"
            return await self._reply(f"{purpose}_{name}", task)

        return work

    def _replying(self, purpose: str) -> Callable[[TaskContext], Any]:
        async def work(task: TaskContext) -> str:
            key = purpose
            if purpose == "check":
                checked = task.text.partition("The answer to check:\n")[2].partition("\n")[0]
                key = f"check_{'abc'[self.answers.index(checked)]}"
            return await self._reply(key, task)

        return work

    async def _reply(self, key: str, task: TaskContext) -> str:
        self.asked.append(key)
        self.requests[key] = task.text
        reply = self.replies.get(key, "I do not know.")
        if isinstance(reply, asyncio.Event):
            await reply.wait()
            return "settled-2"
        if isinstance(reply, ArchonError):
            raise reply
        return reply

    async def submit(self, mesh: Mesh, *further: SubTask, **options: Any) -> RunHandle:
        steps = settled(QUESTION, roles=self.researchers, arbiter=self.arbiter)
        roles = list(dict.fromkeys([*self.researchers, self.arbiter, *(step.role for step in further)]))
        plan = plan_of(*steps, *further)
        return await mesh.client.submit(QUESTION, strategy="plan", plan=plan, roles=roles, **options)

    async def verdict(self, mesh: Mesh, **options: Any) -> tuple[str, Verdict]:
        handle = await self.submit(mesh, wait=20, **options)
        assert handle.run.state == TaskState.COMPLETED, handle.run.failure
        return answer_text(handle.run), verdict_of(await durable(handle), self.arbiter)


def verdict_of(events: list[run_pb2.RunEvent], role: str) -> Verdict:
    """Returns the verdict in the result of the arbiter's step."""
    (event,) = [each for each in of(events, "result", role) if each.result.metadata]
    verdict = Verdict.in_metadata(event.result.metadata)
    assert verdict is not None
    return verdict


def plan_of(*steps: SubTask) -> str:
    return json.dumps({"goal": QUESTION, "subtasks": [asdict(step) for step in steps]})


def says(answer: str, method: str = "by counting") -> str:
    return json.dumps({"method": method, "answer": answer})


@pytest.fixture
async def own_troupe(own_mesh: Mesh) -> AsyncIterator[Troupe]:
    async with AsyncExitStack() as stack:
        yield Troupe(own_mesh, stack)


async def test_roles_that_agree_after_their_methods_are_settled(mesh: Mesh, troupe: Troupe) -> None:
    team = Team(method_a=says("14", "I had counted one side"), method_b=says("14", "from the plans"))
    await team.join(troupe)
    answer, verdict = await team.verdict(mesh)
    assert answer == "14"
    assert (verdict.way, verdict.winner) == ("method", "settled-2")
    assert "settled-1 of researcher-a" in verdict.reason
    assert sorted(team.asked) == ["method_a", "method_b"]
    assert "Your answer:\n12" in team.requests["method_a"]
    assert "settled-2 of researcher-b" in team.requests["method_a"]


async def test_the_only_answer_that_passes_a_check_counts(mesh: Mesh, troupe: Troupe) -> None:
    team = Team(method_a=says("12"), method_b=says("14", "from the plans"), check_a="FAIL\nToo few.", check_b="PASS")
    await team.join(troupe)
    answer, verdict = await team.verdict(mesh)
    assert (answer, verdict.way, verdict.winner) == ("14", "verify", "settled-2")
    assert verdict.tried == {"method": "2 answers still differ"}
    assert "from the plans" in team.requests["check_b"]


async def test_the_model_decides_with_methods_and_checks_as_evidence(mesh: Mesh, troupe: Troupe) -> None:
    model = ScriptedModel([json.dumps({"choice": "settled-2", "reason": "plans are exact"})])
    team = Team(method_a=says("12"), method_b=says("14", "from the plans"), check_a="PASS", check_b="PASS: both may be")
    async with Agent("arbiter", model=model) as agent:
        await team.join(troupe, arbiter_handler(agent, Arbitration(verifier=team.validator)))
        answer, verdict = await team.verdict(mesh)
    assert (answer, verdict.way) == ("14", "model")
    assert verdict.reason.endswith(": plans are exact")
    prompt = model.requests[0].messages[-1].content
    assert "found by: from the plans" in prompt
    assert "a check of it: PASS: both may be" in prompt


async def test_the_offline_model_always_makes_the_same_choice(mesh: Mesh, troupe: Troupe) -> None:
    team = Team()
    async with Agent("arbiter", model=create_model("offline")) as agent:
        await team.join(troupe, arbiter_handler(agent, Arbitration(ways=["model"])))
        verdicts = [await team.verdict(mesh) for _ in range(2)]
    assert {(answer, verdict.way, verdict.winner) for answer, verdict in verdicts} == {("12", "model", "settled-1")}


async def test_a_reviewer_decides_after_others_could_not(mesh: Mesh, troupe: Troupe) -> None:
    team = Team(check_a=InvalidArgument("no"), review='{"choice": "settled-2", "reason": "seen it"}')
    await team.join(troupe)
    answer, verdict = await team.verdict(mesh)
    assert (answer, verdict.way) == ("14", "reviewer")
    assert list(verdict.tried) == ["method", "verify", "model"]
    assert "no" in verdict.tried["verify"]
    assert verdict.tried["model"] == "the arbiter has no model"


async def until_registered(mesh: Mesh, role: str) -> None:
    async def is_listed() -> bool:
        return role in {each.role for each in await mesh.directory.list_instances()}

    await eventually(is_listed)


async def question_of(mesh: Mesh, handle: RunHandle) -> RunQuestion:
    """Returns the open question of a run, once there is one."""
    async with asyncio.timeout(15):
        async for event in handle.events():
            if event.type == "input_requested":
                break
    (question,) = [each for each in await mesh.client.list_questions() if each.run_id == handle.run_id]
    return question


@pytest.mark.parametrize(
    ("reply", "answer", "winner"), [("settled-2", "14", "settled-2"), ("14.1", "14", "settled-2"), ("13", "13", "")]
)
async def test_a_person_chooses_or_gives_another_answer(
    mesh: Mesh, troupe: Troupe, reply: str, answer: str, winner: str
) -> None:
    team = Team(method_a=says("12"))
    await team.join(troupe, ways=["method", "person"])
    handle = await team.submit(mesh)
    question = await question_of(mesh, handle)
    assert "settled-1 of researcher-a" in question.text
    assert "found by: by counting" in question.text
    await mesh.client.respond(handle.run_id, question.input_id, reply)
    assert answer_text(await handle.result(timeout=20)) == answer
    verdict = verdict_of(await durable(handle), team.arbiter)
    assert (verdict.way, verdict.winner) == ("person", winner)
    assert sorted(team.asked) == ["method_a", "method_b"]  # not again in the attempt after the answer


@pytest.mark.parametrize(("default", "way"), [("settled-2", "person"), ("", "reviewer")])
async def test_without_a_person_the_default_or_the_next_way_counts(
    own_mesh: Mesh, own_troupe: Troupe, default: str, way: str
) -> None:
    team = Team(review="settled-2")
    await team.join(own_troupe, ways=["person", "reviewer"], default=default, person_seconds=60.0)
    handle = await team.submit(own_mesh)
    await question_of(own_mesh, handle)
    await own_mesh.advance(61.0)
    assert answer_text(await handle.result(timeout=20)) == "14"
    verdict = verdict_of(await durable(handle), team.arbiter)
    assert verdict.way == way
    assert dict(verdict.tried) == ({} if default else {"person": "no person has answered in time"})


async def test_an_arbiter_that_cannot_decide_fails_with_all_reasons(mesh: Mesh, troupe: Troupe) -> None:
    team = Team(check_a="FAIL", check_b="FAIL", review="none")
    await team.join(troupe, ways=["method", "verify", "model", "reviewer"])
    handle = await team.submit(mesh, wait=20)
    assert handle.run.state == TaskState.FAILED
    events = await durable(handle)
    (failed,) = [event for event in of(events, "result", team.arbiter) if event.result.HasField("failure")]
    message = failed.result.failure.message
    assert failed.result.failure.reason == failure_pb2.ERROR_REASON_UNDECIDED
    for reason in ("method: 2 answers still differ", "0 of 2 answers", "has no model", "none is right"):
        assert reason in message
    assert team.asked.count("review") == 1


async def test_roles_that_are_not_there_are_skipped(mesh: Mesh, troupe: Troupe) -> None:
    team = Team(review="settled-1")
    await team.join(troupe, verifier="stranger")
    answer, verdict = await team.verdict(mesh)
    assert (answer, verdict.way) == ("12", "reviewer")
    assert "unknown role" in verdict.tried["verify"]


async def test_the_metadata_of_a_run_replaces_the_ways(mesh: Mesh, troupe: Troupe) -> None:
    team = Team(review="settled-2")
    await team.join(troupe)
    answer, verdict = await team.verdict(mesh, metadata={"dev.archon.arbiter/ways": "reviewer"})
    assert (answer, verdict.way, dict(verdict.tried)) == ("14", "reviewer", {})
    assert team.asked == ["review"]


async def test_the_loser_does_its_work_again(mesh: Mesh, troupe: Troupe) -> None:
    team = Team("12", "14", "12.1", check_a="FAIL", check_b="PASS", redo_a="14 arches", redo_c=InvalidArgument("busy"))
    await team.join(troupe, ways=["verify"], redo=True)
    steps = settled(QUESTION, roles=team.researchers, arbiter=team.arbiter, order=["authority"])
    roles = [*team.researchers, team.arbiter]
    handle = await mesh.client.submit(QUESTION, strategy="plan", plan=plan_of(*steps), roles=roles, wait=20)
    assert answer_text(handle.run) == "14"
    verdict = verdict_of(await durable(handle), team.arbiter)
    assert verdict.redone["settled-1"] == "14 arches"
    assert verdict.redone["settled-3"].startswith("(failed: invalid argument: busy")
    assert "The answer that counts:\n14" in team.requests["redo_a"]
    assert "redo_b" not in team.asked


async def test_the_step_after_the_arbiter_gets_the_right_answer(mesh: Mesh, troupe: Troupe) -> None:
    team = Team(check_a="FAIL", check_b="PASS")
    await team.join(troupe, ways=["verify"])
    writer = f"writer-{team.arbiter}"

    async def write(task: TaskContext) -> str:
        return f"It has {task.context[0].text} arches; by {task.context[0].metadata['dev.archon.verdict/way']}."

    await troupe(writer, write)
    handle = await team.submit(mesh, SubTask("text", "Write.", role=writer, dependencies=("settled",)), wait=20)
    assert answer_text(handle.run) == "It has 14 arches; by verify."


async def test_after_a_crash_of_the_orchestrator_no_one_is_asked_twice(own_mesh: Mesh, own_troupe: Troupe) -> None:
    gate = asyncio.Event()
    team = Team(method_a=says("12"), method_b=says("14"), check_a="FAIL", check_b=gate, review="settled-2")
    await team.join(own_troupe, ways=["method", "verify", "reviewer"])
    handle = await team.submit(own_mesh)
    await until(lambda: "check_b" in team.asked)
    await own_mesh.orchestrator.kill()
    await own_mesh.orchestrator.start()
    gate.set()
    assert answer_text(await handle.result(timeout=30)) == "14"
    assert sorted(team.asked) == ["check_a", "check_b", "method_a", "method_b", "review"]


async def test_an_attempt_that_is_lost_goes_on_with_the_way_it_was_at(own_mesh: Mesh, own_troupe: Troupe) -> None:
    gate, models = asyncio.Event(), ScriptedModel(['{"choice": "none", "reason": "both may be"}'])
    team = Team(method_a=says("12"), method_b=says("14"), check_a="PASS", check_b="PASS", review=gate)
    async with Agent("arbiter", model=models) as agent:
        options = Arbitration(
            ways=["method", "verify", "model", "reviewer"], verifier=team.validator, reviewer=team.reviewer
        )
        first = await team.join(own_troupe, arbiter_handler(agent, options))
        handle = await team.submit(own_mesh)
        await until(lambda: "review" in team.asked)
        await own_troupe(team.arbiter, arbiter_handler(agent, options))
        await first.stop(0.0)
        gate.set()
        assert answer_text(await handle.result(timeout=30)) == "14"
    events = await durable(handle)
    assert [each.dispatched.role for each in of(events, "dispatched", team.arbiter)] == [team.arbiter] * 2
    assert sorted(team.asked) == ["check_a", "check_b", "method_a", "method_b", "review"]
    assert len(models.requests) == 1
    assert list(verdict_of(events, team.arbiter).tried) == ["method", "verify", "model"]


async def test_after_sigkill_of_the_reference_role_no_one_is_asked_twice(own_mesh: Mesh, own_troupe: Troupe) -> None:
    """The first process of the role is killed while the reviewer is at work, with a question answered before."""
    gate = asyncio.Event()
    team = Team(method_a=says("12"), method_b=says("14"), review=gate)
    team.arbiter = "arbiter"
    environment = {"ARCHON_REGISTRY": own_mesh.registry.address, "ARCHON_TTL": "2"}
    await team.join_without_arbiter(own_troupe)
    async with AsyncExitStack() as stack:
        process = ServiceProcess("archon_services.agents", own_mesh.home, "arbiter", **environment)
        stack.push_async_callback(process.stop)
        await process.start()
        await until_registered(own_mesh, "arbiter")
        ways = {f"{OPTION_PREFIX}ways": "person,method,reviewer", f"{OPTION_PREFIX}reviewer": team.reviewer}
        handle = await team.submit(own_mesh, metadata=ways)
        question = await question_of(own_mesh, handle)
        await own_mesh.client.respond(handle.run_id, question.input_id, "none")
        await until(lambda: "review" in team.asked)
        await process.kill()
        await process.start()
        gate.set()
        assert answer_text(await handle.result(timeout=30)) == "14"
    events = await durable(handle)
    assert len(of(events, "input_requested")) == 1
    assert len(of(events, "dispatched", "arbiter")) == 3
    assert sorted(team.asked) == ["method_a", "method_b", "review"]
    assert list(verdict_of(events, "arbiter").tried) == ["person", "method"]


async def test_a_single_answer_is_nothing_to_settle(mesh: Mesh, troupe: Troupe) -> None:
    team = Team()
    await team.join(troupe)
    handle = await mesh.client.submit(QUESTION, roles=[team.arbiter], strategy="agent", wait=20)
    assert handle.run.failure is not None
    assert handle.run.failure.message.endswith("undecided: there are 0 answers, and nothing to settle")
