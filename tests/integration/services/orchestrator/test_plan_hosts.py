"""What holds for plans on every host: in a process (PlanExecutor with a journal) and in the mesh. Where the two differ,
they do so on purpose, and the test says why."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from archon.agent import TaskContext
from archon.client import answer_text
from archon.errors import FailedPrecondition, InvalidArgument, Unavailable
from archon_mesh.agent import Agent
from archon_mesh.core.messages import ToolCall
from archon_mesh.llm import ScriptedModel
from tests.fixtures.mesh import Mesh
from tests.fixtures.waiting import until
from tests.integration.services.orchestrator.plan_hosts import (
    ABORTS,
    ASKS,
    DEFAULTS,
    QUERY,
    RULES,
    Host,
    MeshHost,
    ProcessHost,
    Script,
    ask,
    begun,
    plan,
    reached,
    step,
)
from tests.integration.services.orchestrator.troupe import Troupe


@pytest.fixture(params=["process", "mesh"])
async def host(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Host]:
    if request.param == "process":
        yield ProcessHost()
        return
    rules = tmp_path / "rules.yaml"
    rules.write_text(RULES)
    mesh = Mesh(tmp_path)
    await mesh.start(ARCHON_RULES=str(rules))
    async with AsyncExitStack() as stack:
        stack.push_async_callback(mesh.stop)
        yield MeshHost(mesh, Troupe(mesh, stack))


def failing(*ids: str, error: type[Exception] = InvalidArgument) -> Any:
    """Returns the work of steps of which these fail."""

    async def work(step_id: str) -> str:
        if step_id in ids:
            raise error(f"{step_id} is booked out")
        return f"{step_id} is done"

    return work


def waiting(gate: asyncio.Event, *ids: str) -> Any:
    """Returns the work of steps of which these wait for the gate."""

    async def work(step_id: str) -> str:
        if step_id in ids:
            await gate.wait()
        return f"{step_id} is done"

    return work


async def test_steps_start_as_soon_as_their_own_dependencies_are_done(host: Host) -> None:
    together = asyncio.Barrier(2)

    async def work(step_id: str) -> str:
        if step_id in ("a", "b"):
            await together.wait()  # a single one would wait for ever
        return step_id

    script = Script([plan(step("a"), step("b"), step("c", "a", "b"))], work)
    await host.start(script)
    ended = await host.ended()
    assert (ended.states, ended.failure) == (dict.fromkeys("abc", "completed"), "")
    assert script.begun[2:] == ["c"]


async def test_what_depends_on_a_failed_step_is_skipped(host: Host) -> None:
    """In the mesh a single failure of a step that is not critical is no reason for another plan. In a process it has
    been tried three times by then, which is one, so that steps are skipped only without a planner."""
    script = Script([plan(step("a"), step("b", "a"), step("c", "b"), step("d"))], failing("a"), replans=False)
    await host.start(script)
    ended = await host.ended()
    assert ended.states == {"a": "failed", "b": "skipped", "c": "skipped", "d": "completed"}
    assert "a is booked out" in ended.results["a"] or not ended.results["a"]


async def test_a_step_with_partial_input_starts_after_a_failure(host: Host) -> None:
    script = Script([plan(step("a"), step("b", "a", partial_input=True))], failing("a"), replans=False)
    await host.start(script)
    assert (await host.ended()).states == {"a": "failed", "b": "completed"}


async def test_a_failed_critical_step_is_replanned_at_once(host: Host) -> None:
    first = plan(step("a"), step("b", "a", critical=True), step("c", "b"))
    script = Script([first, plan(step("x", "a"), step("y", "x"))], failing("b"))
    await host.start(script)
    ended = await host.ended()
    assert (ended.states, ended.failure) == ({"a": "completed", "x": "completed", "y": "completed"}, "")
    assert Counter(script.begun) == {"a": 1, "b": 1, "x": 1, "y": 1}
    assert script.reasons == ["the critical subtask b failed"]


async def test_three_failed_attempts_are_a_reason_for_another_plan(host: Host) -> None:
    script = Script([plan(step("a"), step("b")), plan(step("x"))], failing("b", error=Unavailable))
    await host.start(script)
    ended = await host.ended()
    assert ended.states == {"a": "completed", "x": "completed"}
    assert script.begun.count("b") == 3
    assert script.reasons == ["subtask b failed 3 times"]


async def test_after_three_replans_the_plan_fails(host: Host) -> None:
    plans = [plan(step(f"s{number}", critical=True)) for number in range(5)]
    script = Script(plans, failing(*(f"s{number}" for number in range(5))))
    await host.start(script)
    ended = await host.ended()
    assert ended.failure == "PLAN_FAILED"
    assert script.begun == ["s0", "s1", "s2", "s3"]
    assert len(script.replies) == 1


async def test_a_step_is_replaced_by_its_expansion(host: Host) -> None:
    script = Script([plan(step("a"), step("b", "a", expand=True), step("c", "b")), plan(step("b1"), step("b2", "b1"))])
    await host.start(script)
    ended = await host.ended()
    assert ended.states == dict.fromkeys(("a", "b1", "b2", "c"), "completed")
    assert script.done == ["a", "b1", "b2", "c"]
    assert script.reasons == [], "an expansion is no replan"


async def test_an_edit_replaces_only_what_has_not_begun(host: Host) -> None:
    gate = asyncio.Event()
    script = Script([plan(step("a"), step("b", "a"))], waiting(gate, "a"))
    await host.start(script)
    await begun(script, "a")
    with pytest.raises(FailedPrecondition, match="begun"):
        await host.edit(plan({**step("a"), "description": "do it otherwise"}, step("c", "a")))
    await host.edit(plan(step("a"), step("c", "a")))
    gate.set()
    assert (await host.ended()).states == {"a": "completed", "c": "completed"}
    assert script.begun == ["a", "c"]


async def test_a_paused_plan_starts_nothing_and_goes_on_after_it(host: Host) -> None:
    gate = asyncio.Event()
    script = Script([plan(step("a"), step("b", "a"))], waiting(gate, "a"))
    await host.start(script)
    await begun(script, "a")
    await host.pause()
    gate.set()
    await reached(host, a="completed")
    assert script.begun == ["a"]
    await host.resume()
    assert (await host.ended()).states == {"a": "completed", "b": "completed"}


@pytest.mark.parametrize("crashes", [False, True])
async def test_nothing_starts_before_a_plan_is_approved(host: Host, crashes: bool) -> None:
    asked = []

    def approve() -> bool:
        asked.append(list(script.begun))
        return True

    gate = asyncio.Event()
    script = Script([plan(step("a"), step("b", "a"))], waiting(gate, "a"), approve=approve)
    await host.start(script)
    await begun(script, "a")
    if crashes:
        await host.crash()
    gate.set()
    assert (await host.ended()).states == {"a": "completed", "b": "completed"}
    assert asked == [[]], "once"


async def test_a_rejected_plan_ends_it(host: Host) -> None:
    script = Script([plan(step("a"))], approve=lambda: False)
    await host.start(script)
    assert (await host.ended()).failure == "APPROVAL_REJECTED"
    assert script.begun == []


async def test_a_rejected_replan_ends_it(host: Host) -> None:
    decisions = iter([True, False])
    first = plan(step("a"), step("b", "a", critical=True))
    script = Script([first, plan(step("c"))], failing("b"), approve=lambda: next(decisions))
    await host.start(script)
    assert (await host.ended()).failure == "APPROVAL_REJECTED"
    assert script.begun == ["a", "b"]


async def test_a_plan_in_the_wrong_direction_is_replaced(host: Host) -> None:
    gate = asyncio.Event()
    problems = iter(["it books a flight"])
    script = Script(
        [plan(step("a"), step("b", "a"), step("c", "b")), plan(step("x"))],
        waiting(gate, "b"),
        aligned=lambda: next(problems, ""),
    )
    await host.start(script)
    await reached(host, a="completed", x="completed")
    gate.set()
    ended = await host.ended()
    assert {id_: ended.states[id_] for id_ in ("a", "x")} == {"a": "completed", "x": "completed"}
    assert "c" not in script.begun


async def test_after_a_crash_nothing_that_has_completed_is_done_again(host: Host) -> None:
    """In the mesh a worker that survives the orchestrator goes on with its attempt. In a process the attempt ends with
    the process, and is made again."""
    gate = asyncio.Event()
    script = Script([plan(step("a"), step("b", "a"), step("c", "b"))], waiting(gate, "b"))
    await host.start(script)
    await begun(script, "b")
    await host.crash()
    if isinstance(host, ProcessHost):
        await reached(host, b="executing")
    gate.set()
    assert (await host.ended()).states == dict.fromkeys("abc", "completed")
    assert Counter(script.done) == {"a": 1, "b": 1, "c": 1}
    assert script.begun.count("b") == (2 if isinstance(host, ProcessHost) else 1)


async def test_counters_and_plans_survive_a_crash(host: Host) -> None:
    """One replan before the crash and two after it: the fourth failure is the last."""
    gate = asyncio.Event()

    async def work(step_id: str) -> str:
        if step_id == "wait":
            await gate.wait()
        if step_id.startswith("bad"):
            raise InvalidArgument("booked out")
        return step_id

    first = plan(step("bad0", critical=True))
    second = plan(step("wait"), step("bad1", "wait", critical=True))
    plans = [first, second, *(plan(step(f"bad{number}", critical=True)) for number in (2, 3, 4))]
    script = Script(plans, work)
    await host.start(script)
    await begun(script, "wait")
    await host.crash()
    gate.set()
    ended = await host.ended()
    assert ended.failure == "PLAN_FAILED"
    assert [id_ for id_ in dict.fromkeys(script.begun) if id_.startswith("bad")] == ["bad0", "bad1", "bad2", "bad3"]
    assert len(script.replies) == 1


async def test_an_edit_and_a_pause_survive_a_crash(host: Host) -> None:
    gate = asyncio.Event()
    script = Script([plan(step("a"), step("b", "a"))], waiting(gate, "a"))
    await host.start(script)
    await begun(script, "a")
    await host.edit(plan(step("a"), step("c", "a")))
    await host.pause()
    await host.crash()
    gate.set()
    if isinstance(host, MeshHost):
        await reached(host, a="completed")
    assert "c" not in script.begun
    await host.resume()
    assert (await host.ended()).states == {"a": "completed", "c": "completed"}
    assert "b" not in script.begun


# People -----------------------------------------------------------------------------------------------------------------


async def test_a_person_may_give_another_plan(host: Host) -> None:
    script = Script([plan(step("a"))], silent=ASKS, person=lambda text: ("modify", plan(step("b"), step("c", "b"))))
    await host.start(script)
    assert (await host.ended()).states == {"b": "completed", "c": "completed"}
    assert script.begun == ["b", "c"]


@pytest.mark.parametrize(("silent", "failure"), [(ABORTS, "QUESTION_TIMED_OUT"), (DEFAULTS, "")])
async def test_an_approval_that_nobody_gives_ends_as_its_rule_says(host: Host, silent: str, failure: str) -> None:
    script = Script([plan(step("a"))], silent=silent)
    await host.start(script)
    assert (await host.ended()).failure == failure
    assert script.begun == ([] if failure else ["a"])


@pytest.mark.parametrize(
    ("decision", "result", "failure"),
    [
        (("approve", ""), "a is done", ""),
        (("modify", "mended"), "mended", ""),
        (("reject", "no"), "", "APPROVAL_REJECTED"),
    ],
)
async def test_nothing_uses_a_result_before_a_person_has_decided(
    host: Host, decision: tuple[str, str], result: str, failure: str
) -> None:
    begun_then = []

    def person(text: str) -> tuple[str, str]:
        begun_then.append(list(script.begun))
        return decision

    script = Script([plan(step("a", checkpoint=True), step("b", "a"))], person=person)
    await host.start(script)
    ended = await host.ended()
    assert ended.failure == failure
    assert begun_then == [["a"]]
    if not failure:
        assert ended.results["a"] == result
        assert script.done == ["a", "b"]


async def test_a_held_result_survives_a_crash(host: Host) -> None:
    may_decide = asyncio.Event()
    held = plan(step("a", checkpoint=True), step("b", "a"))
    script = Script([held], person=lambda text: ("approve", ""), may_decide=may_decide)
    await host.start(script)
    await until(lambda: script.done == ["a"])
    await host.crash()
    may_decide.set()
    assert (await host.ended()).states == {"a": "completed", "b": "completed"}
    assert script.begun.count("b") == 1


async def test_a_step_asks_a_person_and_others_go_on(host: Host) -> None:
    gate = asyncio.Event()

    async def work(step_id: str) -> str:
        if step_id == "a":
            return await ask("Where to?")
        gate.set()
        return step_id

    def person(text: str) -> tuple[str, str] | None:
        return ("", "Rome") if "Where to?" in text else None

    script = Script([plan(step("a"), step("b"), step("c", "a", "b"))], work, person=person)
    await host.start(script)
    await gate.wait()
    ended = await host.ended()
    assert ended.states == dict.fromkeys("abc", "completed")
    assert ended.results["a"] == "Rome"
    assert script.begun.count("a") == 1, "the attempt waits"


# Limits -----------------------------------------------------------------------------------------------------------------


async def test_no_step_begins_once_the_budget_is_spent(host: Host) -> None:
    script = Script([plan(step("a"), step("b", "a"), step("c", "b"))], model_calls=2)
    await host.start(script)
    ended = await host.ended()
    assert ended.failure == "BUDGET_EXHAUSTED"
    assert (script.begun, ended.states["a"], ended.states["b"]) == (["a", "b"], "completed", "completed")


async def test_a_plan_ends_with_its_time(host: Host) -> None:
    script = Script([plan(step("a"), step("b", "a"))], waiting(asyncio.Event(), "a"), seconds=0.5)
    await host.start(script)
    assert (await host.ended()).failure == "RUN_TIMEOUT"
    await until(lambda: script.cancelled == ["a"])
    assert script.begun == ["a"]


async def test_a_cancelled_plan_begins_nothing_more(host: Host) -> None:
    script = Script([plan(step("a"), step("b", "a"))], waiting(asyncio.Event(), "a"))
    await host.start(script)
    await begun(script, "a")
    await host.cancel()
    assert (await host.ended()).failure == "CANCELLED"
    await until(lambda: script.cancelled == ["a"])
    assert script.begun == ["a"]


# The planner ------------------------------------------------------------------------------------------------------------


async def test_steps_go_on_while_the_planner_thinks(host: Host) -> None:
    """It is asked for another plan after a failure; what does not depend on that starts and ends meanwhile."""
    planner = asyncio.Event()
    first = plan(step("a", critical=True), step("b"), step("c", "b"), step("d", "c"))
    script = Script([first, plan(step("x"))], failing("a"), gate=planner)
    await host.start(script)
    await until(lambda: bool(script.reasons))
    await reached(host, b="completed", c="completed", d="completed")
    assert "x" not in script.begun
    planner.set()
    ended = await host.ended()
    assert (ended.failure, ended.states["x"], script.begun.count("d")) == ("", "completed", 1)


# Delegation -------------------------------------------------------------------------------------------------------------


async def delegated_in_a_process() -> str:
    """A step goes to a sub-agent, which asks another one."""
    helper = Agent("helper", model=ScriptedModel(["the key"]))
    lead = Agent(
        "lead",
        model=ScriptedModel([ToolCall("1", "helper", '{"task": "find it"}'), "with the key"]),
        sub_agents=[helper],
    )
    chief = Agent("chief", model=ScriptedModel([plan(step("a", role="lead"))]), sub_agents=[lead])
    async with chief, chief.plan(QUERY) as run:
        return await run.result(10)


async def delegated_in_a_mesh(mesh: Mesh, troupe: Troupe) -> str:
    async def lead(task: TaskContext) -> str:
        return "with " + (await task.delegate("find it", role="helper")).text

    async def helper(task: TaskContext) -> str:
        return "the key"

    async def planner(task: TaskContext) -> str:
        return plan(step("a", role="lead"))

    await troupe("lead", lead, coordinator=True)
    await troupe("helper", helper)
    await troupe("planner-of-leads", planner)
    handle = await mesh.client.submit(QUERY, strategy="plan", planner="planner-of-leads", roles=["lead", "helper"])
    return answer_text(await handle.result(20))


@pytest.mark.parametrize("where", ["process", "mesh"])
async def test_a_step_delegates(where: str, mesh: Mesh, troupe: Troupe) -> None:
    made = await (delegated_in_a_process() if where == "process" else delegated_in_a_mesh(mesh, troupe))
    assert made == "with the key"
