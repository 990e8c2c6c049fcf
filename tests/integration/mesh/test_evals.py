"""Evals over a mesh of the reference agents with the offline model, and of agents with questions, costs and ratings."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from archon import AgentServer, TaskContext
from archon.agent import Answer
from archon.client import Client, RunHandle
from archon.errors import InvalidArgument, Unavailable
from archon.types import TaskState, Usage
from archon_mesh.evals import (
    Case,
    EvalReport,
    case_from_run,
    compare,
    evaluate,
    parse_report,
    read_cases,
    score_runs,
    write_report,
)
from archon_mesh.evals.case import case_of
from archon_mesh.evals.files import add_case, read_report
from archon_mesh.llm import ModelRequest, ScriptedModel
from archon_mesh.node import agent_from_role, agent_server
from archon_mesh.recorded import fetch_run
from archon_services.testing import InProcessMesh
from tests.fixtures.reference_roles import reference_role
from tests.fixtures.waiting import eventually

SUBJECTS = ("a todo app", "a shop", "a wiki", "a chat", "a game", "a calendar", "a forum", "a blog", "a map", "a bank")
NEEDS = ("It must sync.", "It must be fast.", "It must work offline.", "It must be cheap.", "It must be safe.")
GOALS = [f"Build {subject}. {need}" for subject in SUBJECTS for need in NEEDS]
PIPELINE = ("requirements", "designer", "implementer")


def make_case(case_id: str, goal: str, *expect: dict[str, Any], **fields: Any) -> Case:
    return case_of({"id": case_id, "goal": goal, "expect": list(expect) or [{"scorer": "exact"}], **fields})


def expecting(answers: Sequence[str]) -> list[Case]:
    """Returns a case for each goal, which expects the recorded answer of its run, and all roles of the pipeline."""
    roles = {"scorer": "roles", "names": list(PIPELINE), "only": True}
    return [
        make_case(f"goal-{number}", goal, {"scorer": "exact"}, roles, roles=list(PIPELINE), answer=answer)
        for number, (goal, answer) in enumerate(zip(GOALS, answers, strict=True))
    ]


@asynccontextmanager
async def demo_mesh(home: Path) -> AsyncIterator[tuple[InProcessMesh, dict[str, AgentServer]]]:
    """A mesh of the agents of the demo, with the offline model; yields their servers by role."""
    servers: dict[str, AgentServer] = {}
    async with InProcessMesh(home) as mesh, AsyncExitStack() as stack:
        for name in PIPELINE:
            role = reference_role(name)
            agent = await stack.enter_async_context(agent_from_role(role, "offline"))
            servers[name] = await stack.enter_async_context(agent_server(role, agent, mesh.agent_settings()))
        yield mesh, servers


def careless(request: ModelRequest) -> str:
    """A model that forgets about shops and wikis."""
    asked = "\n".join(message.content for message in request.messages)
    return "no idea" if "a shop" in asked or "a wiki" in asked else "a summary of its material"


async def test_an_eval_of_fifty_cases_catches_a_changed_role(tmp_path: Path) -> None:
    async with demo_mesh(tmp_path) as (mesh, servers), AsyncExitStack() as stack:
        first = await evaluate(expecting([""] * 50), mesh.client, parallel=16)
        cases = expecting([case.trials[0].answer for case in first.cases])
        baseline = await evaluate(cases, mesh.client, parallel=16)
        assert baseline.passed and baseline.metrics["passed"].mean == 1
        write_report(baseline, tmp_path / "baseline.json")

        await servers["designer"].stop()
        role = reference_role("designer")
        agent = await stack.enter_async_context(agent_from_role(role, ScriptedModel(careless)))
        await stack.enter_async_context(agent_server(role, agent, mesh.agent_settings()))
        report = await evaluate(cases, mesh.client, parallel=16)

    broken = tuple(f"goal-{number}" for number in range(5, 15))
    assert tuple(case.case_id for case in report.failures) == broken
    comparison = compare(report, read_report(tmp_path / "baseline.json"))
    assert comparison.broken == broken and not comparison.fixed
    assert [(change.metric, change.verdict) for change in comparison.regressions] == [
        ("passed", "worse"),
        ("exact", "worse"),
    ]
    assert not report.passed
    same = compare(parse_report(json.dumps(baseline.document())), baseline)
    assert not same.regressed and {change.verdict for change in same.changes} == {"same"}


@pytest.fixture(scope="module")
async def mesh(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[InProcessMesh]:
    """A mesh with an agent that asks, one that fails, one that costs a cent, and one that waits."""

    async def ask(task: TaskContext) -> str:
        return f"{await task.ask('Which colour?')}, {await task.ask('Which size?')}"

    async def fail(task: TaskContext) -> str:
        raise InvalidArgument("that is too hard")

    async def pay(task: TaskContext) -> Answer:
        task.add_usage(Usage(cost_micro_usd=10_000, input_tokens=100, output_tokens=20, model_calls=1))
        return Answer(json.dumps({"total": 3, "items": [{"name": task.text}]}))

    async def wait(task: TaskContext) -> str:
        await asyncio.Event().wait()
        return ""

    async with InProcessMesh(tmp_path_factory.mktemp("mesh")) as mesh, AsyncExitStack() as stack:
        for name, handler in {"asker": ask, "failer": fail, "payer": pay, "waiter": wait}.items():
            server = AgentServer(name, handler=handler, settings=mesh.agent_settings())
            await stack.enter_async_context(server)
        yield mesh


def reasons(report: EvalReport) -> list[str]:
    return [reason for case in report.cases for trial in case.trials for reason in trial.reasons]


async def test_a_case_answers_the_questions_of_its_run(mesh: InProcessMesh) -> None:
    case = make_case("ask", "Paint it.", {"scorer": "contains", "texts": ["red, large"]}, roles=["asker"])
    report = await evaluate([case.model_copy(update={"answers": ["red", "large"]})], mesh.client)
    assert report.passed, reasons(report)
    report = await evaluate([case.model_copy(update={"answers": ["red"]})], mesh.client)
    assert report.cases[0].trials[0].state == "canceled" and "the run ended canceled" in reasons(report)[0]


async def test_a_run_that_fails_fails_its_case_with_the_reason(mesh: InProcessMesh) -> None:
    cases = [
        make_case(
            "fail", "Do it.", {"scorer": "cost", "max_usd": 1.0}, {"scorer": "regex", "pattern": "."}, roles=["failer"]
        )
    ]
    report = await evaluate(cases, mesh.client)
    assert not report.passed and "that is too hard" in reasons(report)[0]
    report = await evaluate([make_case("lost", "Do it.", roles=["no-such-role"])], mesh.client)
    assert "no-such-role" in report.cases[0].trials[0].error


async def test_a_budget_ends_an_eval_before_it_is_exceeded(mesh: InProcessMesh) -> None:
    cases = [
        make_case(f"pay-{number}", "Buy it.", {"scorer": "cost", "max_usd": 0.02}, roles=["payer"])
        for number in range(20)
    ]
    report = await evaluate(cases, mesh.client, parallel=3, budget_usd=0.105)
    ran = [case for case in report.cases if not case.skipped]
    assert len(ran) >= 8 and report.skipped == 20 - len(ran)
    assert report.spent_usd == pytest.approx(0.01 * sum(bool(case.trials[0].cost_usd) for case in report.cases))
    assert report.spent_usd <= 0.105 + 1e-9 and not report.passed and not report.failures
    unlimited = await evaluate(cases, mesh.client, parallel=20, budget_usd=2)
    assert unlimited.passed and unlimited.spent_usd == pytest.approx(0.2)
    assert unlimited.metrics["run.tokens"].mean == 120


async def test_an_eval_that_is_cancelled_cancels_its_runs(mesh: InProcessMesh) -> None:
    cases = [make_case(f"wait-{number}", "Wait.", roles=["waiter"]) for number in range(4)]
    evaluating = asyncio.create_task(evaluate(cases, mesh.client, parallel=2))

    async def working(count: int) -> bool:
        runs = await mesh.client.list_runs(states=[TaskState.WORKING])
        return len(runs) == count

    await eventually(lambda: working(2))
    evaluating.cancel()
    with pytest.raises(asyncio.CancelledError):
        await evaluating
    await eventually(lambda: working(0))


async def test_an_unreachable_mesh_ends_the_eval(tmp_path: Path) -> None:
    async with InProcessMesh(tmp_path) as gone:
        await gone.orchestrator.kill()
        with pytest.raises(Unavailable):
            await evaluate([make_case("x", "Do it.")], gone.client)


async def test_a_run_becomes_a_case_that_passes(mesh: InProcessMesh, tmp_path: Path) -> None:
    handle = await mesh.client.submit("a pen", roles=["payer"], wait=10)
    recorded = await fetch_run(mesh.client, handle.run_id)
    case = case_from_run(recorded, [{"scorer": "schema"}, {"scorer": "roles"}, {"scorer": "exact", "field": "total"}])
    assert (case.goal, case.roles, case.strategy, case.origin) == ("a pen", ["payer"], "agent", handle.run_id)
    add_case(tmp_path / "cases.jsonl", case)
    report = await evaluate(read_cases(tmp_path / "cases.jsonl"), mesh.client, repeat=3)
    assert report.passed and len(report.cases[0].trials) == 3
    asked = await mesh.client.submit("Paint it.", roles=["asker"])
    for answer in ("blue", "small"):
        await eventually(lambda: _asks(mesh, asked.run_id))
        run = await mesh.client.get(asked.run_id)
        await mesh.client.respond(asked.run_id, run.questions[0].input_id, answer)
    await asked.result(10)
    again = case_from_run(await fetch_run(mesh.client, asked.run_id))
    assert again.answers == ["blue", "small"] and (await evaluate([again], mesh.client)).passed


async def test_a_hold_of_a_breakpoint_is_left_to_the_person_who_set_it(mesh: InProcessMesh) -> None:
    case = make_case("debugged", "Paint it.", {"scorer": "contains", "texts": ["red, large"]}, roles=["asker"])
    evaluating = asyncio.create_task(evaluate([case.model_copy(update={"answers": ["red", "large"]})], _Held(mesh)))
    run_ids: list[str] = []

    async def held() -> bool:
        run_ids[:] = [each.run_id for each in await mesh.client.list_questions() if each.breakpoint]
        return bool(run_ids)

    await eventually(held)
    (question,) = (await mesh.client.get(run_ids[0])).questions
    await mesh.client.respond(run_ids[0], question.input_id, decision="approve")
    report = await evaluating
    assert report.passed and report.cases[0].trials[0].run_id == run_ids[0], reasons(report)


class _Held(Client):
    """A client whose runs are held before their task, as by a person who debugs them."""

    def __init__(self, mesh: InProcessMesh) -> None:
        super().__init__(mesh.orchestrator.address)

    async def submit(self, *args: Any, **options: Any) -> RunHandle:
        return await super().submit(*args, breakpoints=["task:asker"], **options)


async def _asks(mesh: InProcessMesh, run_id: str) -> bool:
    return bool((await mesh.client.get(run_id)).questions)


async def test_ratings_count_when_runs_are_scored_again(mesh: InProcessMesh) -> None:
    cases = [
        make_case(f"rated-{number}", "a pen", {"scorer": "rating", "least": 3.0}, roles=["payer"])
        for number in range(2)
    ]
    report = await evaluate(cases, mesh.client)
    assert not report.passed and not report.failures and report.unscored == 2
    runs = {case.case_id: [case.trials[0].run_id] for case in report.cases}
    await mesh.client.rate(runs["rated-0"][0], 5)
    await mesh.client.rate(runs["rated-1"][0], 1)
    rated = await score_runs(cases, mesh.client, runs)
    assert [case.passed for case in rated.cases] == [True, False]
    assert [case.trials[0].scores[0].value for case in rated.cases] == [1.0, 0.0]


async def test_versions_choose_the_instances_to_evaluate(mesh: InProcessMesh) -> None:
    async def old(task: TaskContext) -> str:
        return "old"

    async def new(task: TaskContext) -> str:
        return "new"

    async with (
        AgentServer("versioned", handler=old, version="1.0", settings=mesh.agent_settings()),
        AgentServer("versioned", handler=new, version="2.0", settings=mesh.agent_settings()),
    ):
        cases = [make_case(f"v-{number}", "x", roles=["versioned"], answer="old") for number in range(4)]
        assert (await evaluate(cases, mesh.client, versions={"versioned": "1.*"})).passed
        assert len((await evaluate(cases, mesh.client, versions={"versioned": "2.*"})).failures) == 4
