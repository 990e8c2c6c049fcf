"""What forks keep of plans, delegations and messages, and what they refuse."""

from __future__ import annotations

from dataclasses import replace

import pytest

from archon.api.agent.v1 import agent_pb2, message_pb2
from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.errors import InvalidArgument
from archon.lineage import RunProvenance, SourceKind
from archon.types import RunEvent, RunRecord
from archon_mesh.engine import Task
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.plan import SubTask
from archon_mesh.engine.plan import Task as Plan
from archon_mesh.engine.types import PLAN, Submission, TaskState
from archon_services.orchestrator.runs.states.changes import Asked
from tests.unit.services.orchestrator.runs.journaled_run import (
    Behaviour,
    JournaledRun,
    agent_run,
    pipeline,
    planned_run,
)

TEXT = [common_pb2.Part(text="What a person says.")]


def run_of_plan(*steps: SubTask) -> JournaledRun:
    plan = Plan("", "do it", "do it", steps)
    return JournaledRun(planned_run("source", plan, ["one"]), {})


def step(id_: str, *dependencies: str, **more: object) -> SubTask:
    return SubTask(id_, f"Do {id_}.", dependencies=dependencies, role="one", **more)  # type: ignore[arg-type]


def planner_run(*plans: tuple[SubTask, ...]) -> JournaledRun:
    """A run whose planner expands the plan with the second one when the first steps have completed."""
    first = planned_run("source", Plan("", "", "", ()), ["one"])
    submission = replace(first.submission, roles=("planner",), plan_rules=None, strategy=PLAN)
    run = JournaledRun(inp.Submit(submission, "owner", 1), {})
    for steps in plans:
        assert run.state.plan is not None
        task = run.state.tasks[run.state.plan.planner or "source.1"]
        run.feed(inp.SlotFound(task.task_id, "p"))
        payload = agent_pb2.TaskResult(state=common_pb2.TASK_STATE_COMPLETED)
        reply = Plan("", "do it", "do it", steps)
        run.feed(inp.PlanIn(task.task_id, task.attempt, TaskState.COMPLETED, payload, plan=reply))
        while any(task.step_id for task in ready(run)) and not run.state.plan.planner:
            run._step(next(task for task in [*live(run), *ready(run)] if task.step_id))
    return run


def ready(run: JournaledRun) -> list[Task]:
    return [task for task in run.state.tasks.values() if run.state.ready(task) or task.live]


def live(run: JournaledRun) -> list[Task]:
    return run.state.live_tasks()


PLANS = (
    (step("a"), step("b"), step("rest", "a", expand=True), step("end", "rest", "b")),
    (step("new", "a"),),
)


def test_a_change_of_what_the_planner_knew_takes_its_plan_back() -> None:
    source = planner_run(*PLANS)
    assert source.state.ended
    _, kept = source.fork(Asked(["new"]), "kept")
    assert kept.plan_revision == 2, "the planner did not know its result"
    fork, plan = source.fork(Asked(["a"]), "taken-back")
    assert plan.plan_revision == 1
    assert {answer.step_id for answer in plan.kept.reused} <= {"b"}
    assert fork.state.plan is not None
    assert "new" not in fork.state.plan.steps


def test_an_input_of_a_step_is_its_description() -> None:
    source = run_of_plan(step("a"), step("b", "a")).play()
    fork, _ = source.fork(Asked(inputs=[("b", "Do it well.")]), "f")
    assert fork.state.plan is not None
    assert fork.state.plan.steps["b"].description == "Do it well."
    assert fork.play().executed == ["b"]


def test_an_input_of_a_role_is_in_the_first_event() -> None:
    source = JournaledRun(pipeline("source", "ab", [("a", "b")]), {}).play()
    fork, _ = source.fork(Asked(inputs=[("b", "Only this.")]), "f")
    assert fork.events[0].submitted.metadata == {"dev.archon/input/b": "Only this."}
    assert fork.play().executed == ["b"]


def test_a_delegation_under_a_key_of_its_own_is_requested_again() -> None:
    agents = {"lead": Behaviour(delegates=("h",), memo_key=True), "h": Behaviour(delegates=("d",)), "d": Behaviour()}
    source = JournaledRun(agent_run("source", "lead", [], agents), agents).play()
    assert sorted(source.fork(Asked(["lead"]), "f")[0].play().executed) == ["d", "h", "lead"]
    agents["lead"].memo_key = False
    source = JournaledRun(agent_run("source", "lead", [], agents), agents).play()
    assert source.fork(Asked(["lead"]), "g")[0].play().executed == ["lead"]
    assert sorted(source.fork(Asked(["h"]), "i")[0].play().executed) == ["h", "lead"]


def test_a_delegated_answer_is_edited() -> None:
    agents = {"lead": Behaviour(delegates=("h",)), "h": Behaviour()}
    source = JournaledRun(agent_run("source", "lead", [], agents), agents).play()
    fork, _ = source.fork(Asked(answers=[("h", TEXT)]), "f")
    assert fork.play().executed == ["lead"]
    (child,) = (task for task in fork.state.tasks.values() if task.parent)
    assert child.payload.output == TEXT  # type: ignore[attr-defined]


def test_a_task_that_is_not_requested_again_is_not_executed() -> None:
    agents = {"lead": Behaviour(delegates=("h",)), "h": Behaviour(delegates=("d",)), "d": Behaviour()}
    source = JournaledRun(agent_run("source", "lead", [], agents), agents).play()
    agents["lead"].delegates = ()
    assert source.fork(Asked(["h", "lead"]), "f")[0].play().executed == ["lead"]


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (Asked(["x"]), "rerun: the run has no task 'x' up to this event; it has lead, h"),
        (Asked([""]), "rerun: empty name of a task"),
        (Asked(answers=[("h", TEXT)]), "edited_answers: h has 2 tasks in the run; name one of source.2, source.3"),
        (Asked(["lead"], [("lead", TEXT)]), "edited_answers: lead is not executed if its answer is edited"),
        (Asked(inputs=[("source.2", "x")]), "edited_inputs: source.2 was delegated"),
        (Asked(inputs=[("lead", "x"), ("lead", "y")]), "edited_inputs: lead is named twice"),
    ],
)
def test_a_change_that_cannot_be_made_is_refused(asked: Asked, text: str) -> None:
    agents = {"lead": Behaviour(delegates=("h", "h")), "h": Behaviour()}
    source = JournaledRun(agent_run("source", "lead", [], agents), agents).play()
    with pytest.raises(InvalidArgument) as refused:
        source.fork(asked, "f")
    assert str(refused.value).startswith(text)
    assert refused.value.field_violations


def test_metadata_that_only_a_fork_writes_is_not_taken_from_agents() -> None:
    source = JournaledRun(pipeline("source", "a", []), {})
    source.feed(inp.SlotFound("source.1", "i"))
    forged = agent_pb2.TaskResult(state=common_pb2.TASK_STATE_COMPLETED, output=TEXT)
    forged.metadata["dev.archon/edited-by"] = "ann"
    source.feed(inp.ResultIn("source.1", 1, TaskState.COMPLETED, forged))
    provenance = provenance_of(source)
    assert not provenance.lineage.tasks["source.1"].is_edited
    fork, _ = source.fork(Asked(), "f")
    assert not provenance_of(fork).lineage.tasks["f.1"].is_edited


def provenance_of(run: JournaledRun) -> RunProvenance:
    provenance = RunProvenance()
    for event in run.events:
        provenance.apply(RunEvent(event))
    return provenance


def test_what_was_delivered_and_not_used_is_named() -> None:
    edges = [("a", "c"), ("b", "c")]
    run = JournaledRun(pipeline("source", "abc", edges), {"c": Behaviour({"b"})}).play()
    found = provenance_of(run).of("c")
    assert [source.label for source in found.sources if source.kind is SourceKind.ANSWER] == ["c", "b"]
    assert [link.how for link in found.unread] == ["answer of a, delivered and not used"]


def test_a_delegated_answer_rests_on_its_request_and_that_on_the_goal() -> None:
    agents = {"lead": Behaviour(delegates=("h",)), "h": Behaviour()}
    run = JournaledRun(agent_run("source", "lead", [], agents), agents).play()
    provenance = provenance_of(run)
    record = run_pb2.RunRecord(role="h", ordinal=1, kind="tool", target="search", response_json='"32 of 338"')
    record.task.task_id, record.task.attempt = "source.2", 1
    provenance.add(RunRecord(record))
    found = provenance.of()
    assert [source.kind for source in found.sources] == ["answer", "goal", "answer", "tool", "request"]
    kinds = {link.on: link.how for link in found.links}
    assert kinds["task:source.2"] == "delegated to it"
    with pytest.raises(InvalidArgument, match="does not contain this text"):
        found.quoted("32 of 338")
    child = provenance.of("h")
    assert [each.source.kind for each in child.quoted("h of source")] == []


def test_numbers_of_a_quotation_are_found_in_sources() -> None:
    run = JournaledRun(pipeline("source", "a", []), {})
    run.feed(inp.SlotFound("source.1", "i"))
    text = "32 of 338 orders failed, worth 1,233.86."
    result = agent_pb2.TaskResult(state=common_pb2.TASK_STATE_COMPLETED, output=[common_pb2.Part(text=text)])
    run.feed(inp.ResultIn("source.1", 1, TaskState.COMPLETED, result))
    provenance = provenance_of(run)
    for ordinal, response in enumerate(
        ['{"failed": 32, "sum": 1233.860}', '{"orders": 338}', '"32 of 338 ORDERS failed"'], 1
    ):
        record = run_pb2.RunRecord(role="a", ordinal=ordinal, kind="tool", target="count", response_json=response)
        record.task.task_id, record.task.attempt = "source.1", 1
        provenance.add(RunRecord(record))
    found = provenance.of("a").quoted("32 of 338 orders failed")
    assert [(each.source.id, each.is_whole, each.numbers) for each in found] == [
        ("record:3", True, ("32", "338")),
        ("record:1", False, ("32",)),
        ("record:2", False, ("338",)),
    ]
    assert [each.numbers for each in provenance.of("a").quoted("worth 1,233.86")] == [("1,233.86",)]


def test_a_message_that_was_read_is_a_source_and_changes_its_reader() -> None:
    run = JournaledRun(pipeline("source", "ab", []), {})
    for task_id in ("source.1", "source.2"):
        run.feed(inp.SlotFound(task_id, "i"))
    run.feed(inp.SubscribeIn("source.2", 1, 1))
    message = message_pb2.PeerMessage(message_id="m", receiver_id="b", content=TEXT)
    run.feed(inp.SendIn("source.1", 1, 1, "m", "b", "notification", payload=message))
    seq = run.state.last_seq
    for number, task_id in enumerate(("source.1", "source.2")):
        result = agent_pb2.TaskResult(state=common_pb2.TASK_STATE_COMPLETED, messages_read=seq * number)
        run.feed(inp.ResultIn(task_id, 1, TaskState.COMPLETED, result))
    (read,) = (each for each in provenance_of(run).of("b").sources if each.kind is SourceKind.MESSAGE)
    assert (read.label, read.seq, read.text) == ("a", seq, "What a person says.")
    assert sorted(run.fork(Asked(["a"]), "f")[0].play().executed) == ["a", "b"]
    assert run.fork(Asked(["b"]), "g")[0].play().executed == ["b"]


def test_another_goal_keeps_edited_answers_only() -> None:
    source = JournaledRun(pipeline("source", "ab", [("a", "b")]), {}).play()
    assert isinstance(source.first.submission, Submission)
    from archon_services.orchestrator.runs.states.fork_plan import ForkPlanner

    planner = ForkPlanner(source.events, Asked(answers=[("a", TEXT)]), is_kept=False, is_replanned=True)
    plan = planner.plan(replace(source.first.submission, run_id="f"))
    assert [answer.role for answer in plan.kept.reused] == ["a"]


def test_a_delegated_answer_in_a_fork_still_rests_on_another() -> None:
    agents = {"lead": Behaviour(delegates=("a", "c")), "a": Behaviour(), "c": Behaviour()}
    source = JournaledRun(agent_run("source", "lead", [("a", "c")], agents), agents).play()
    answered = max(event.seq for event in source.events if event.HasField("result") and event.result.role == "c")
    fork = source.fork(Asked(), "f", after_seq=answered)[0].play()
    assert fork.executed == ["lead"]
    assert sorted(fork.fork(Asked(["a"]), "g")[0].play().executed) == ["a", "c", "lead"]


def test_an_answer_in_a_fork_rests_on_what_its_delegations_used() -> None:
    agents = {"t": Behaviour({"b"}, delegates=("c",))}
    source = JournaledRun(pipeline("source", "abt", [("a", "t"), ("b", "t"), ("a", "c")]), agents).play()
    fork = source.fork(Asked(), "f")[0]
    assert fork.state.ended
    assert sorted(fork.fork(Asked(["a"]), "g")[0].play().executed) == ["a", "c", "t"]
    assert sorted(fork.fork(Asked(["b"]), "h")[0].play().executed) == ["b", "c", "t"]
