"""Steps of a workflow that several agents do at once: committees, copies and second attempts."""

from __future__ import annotations

from pathlib import Path

import pytest

from archon.errors import InvalidArgument
from archon_mesh.agent import Agent
from archon_mesh.llm import ScriptedModel
from archon_mesh.workflows import WorkflowPlanner
from archon_mesh.workflows.schema import MAX_MEMBERS
from tests.unit.mesh.workflows.files import known, load

COMMITTEE = """
name: count
parameters: {thing: {type: string}}
steps:
- role: anna
  task: Look at {{ thing }}
- committee: How many {{ thing }}?
  roles: [anna, berta, carl]
  arbiter: boss
  weight: confidence
  least: 0.6
  save_as: number
- task: There are {{ number }}
"""


def test_a_committee_is_its_members_and_a_vote(tmp_path: Path) -> None:
    subtasks = known(load(tmp_path, COMMITTEE), thing="days")
    assert list(subtasks) == ["step-1", "number-1", "number-2", "number-3", "number", "step-3"]
    members = [subtasks[f"number-{number}"] for number in (1, 2, 3)]
    assert [member.role for member in members] == ["anna", "berta", "carl"]
    assert all(member.dependencies == ("step-1",) and not member.critical for member in members)
    assert members[0].description.startswith("How many days?")
    vote = subtasks["number"]
    assert (vote.decision, vote.role, vote.critical) == ("vote", "boss", True)
    assert vote.tool_args == {"least": 0.6, "weight": "confidence"}
    assert subtasks["step-3"].dependencies == ("number",)
    assert known(load(tmp_path, COMMITTEE), {"number": "360"}, thing="days")["step-3"].description == "There are 360"


async def test_an_agent_executes_a_committee(tmp_path: Path) -> None:
    answers = {"anna": ["seen", "360"], "berta": ["361"], "carl": ["12"]}
    members = [Agent(name, model=ScriptedModel(texts)) for name, texts in answers.items()]
    async with Agent("clerk", model=ScriptedModel(["There are 360."]), sub_agents=members) as agent:
        text = COMMITTEE.replace("  arbiter: boss\n  weight: confidence\n", "")
        planner = WorkflowPlanner(load(tmp_path, text), {"thing": "days"})
        assert await agent.run_task("Count", planner=planner) == "There are 360."


SWARM = """
name: count
parameters: {things: {type: list}}
steps:
- role: anna
  task: Name more
  output: {type: array}
  save_as: more
- swarm: How many of each?
  items: "{{ things + more }}"
  roles: [anna, berta]
  members: 2
  tries: 5
  save_as: counted
- task: "There are {{ counted.results }}"
"""


def test_a_swarm_is_its_members_and_the_first_result(tmp_path: Path) -> None:
    assert list(known(load(tmp_path, SWARM), things=["a"])) == ["more", "counted", "step-3"]
    subtasks = known(load(tmp_path, SWARM), {"more": '["{b}"]'}, things=["a"])
    assert list(subtasks) == ["more", "counted-1", "counted-2", "counted", "step-3"]
    members = [subtasks[f"counted-{number}"] for number in (1, 2)]
    assert [member.role for member in members] == ["anna", "berta"]
    assert all(member.tool_args["items"] == ["a", "{{b}}"] and member.tool_args["tries"] == 5 for member in members)
    assert (subtasks["counted"].decision, subtasks["counted"].critical) == ("first", True)


async def test_an_agent_executes_a_swarm(tmp_path: Path) -> None:
    replies = {"anna": ['["b"]', *["3"] * 9], "berta": ["3"] * 9}
    members = [Agent(name, model=ScriptedModel(texts)) for name, texts in replies.items()]
    async with Agent("clerk", model=ScriptedModel(["There are three."]), sub_agents=members) as agent:
        planner = WorkflowPlanner(load(tmp_path, SWARM), {"things": ["a"]})
        assert await agent.run_task("Count", planner=planner) == "There are three."
        assert agent.planned_run is not None
        assert agent.planned_run.outcome is not None
        assert agent.planned_run.outcome.task is not None
        results = {each.id: each.result for each in agent.planned_run.outcome.task.subtasks}
    assert results["counted"] == {"results": {"1": "3", "2": "3"}, "failed": {}}


@pytest.mark.parametrize(
    ("key", "delays", "quorum"), [("copies: 3", [0.0, 0.0, 0.0], 1), ("hedge_after: 2.5", [0.0, 2.5], 1)]
)
def test_a_task_is_done_several_times_and_the_first_result_counts(
    tmp_path: Path, key: str, delays: list[float], quorum: int
) -> None:
    text = f"name: x\nsteps:\n- {{tool: a, id: before}}\n- {{role: r, task: work, id: it, {key}}}\n- {{task: end}}"
    subtasks = known(load(tmp_path, text))
    parts = [subtasks[f"it-{number}"] for number in range(1, len(delays) + 1)]
    assert [part.delay_seconds for part in parts] == delays
    assert {part.dependencies for part in parts} == {("before",)}
    assert (subtasks["it"].decision, subtasks["it"].quorum, subtasks["it"].critical) == ("first", quorum, True)
    assert subtasks["step-3"].dependencies == ("it",)


def test_a_task_may_be_done_again_after_the_measured_time_of_its_role(tmp_path: Path) -> None:
    subtasks = known(load(tmp_path, "name: x\nsteps:\n- {role: r, task: work, id: it, hedge_after: p95}"))
    second = subtasks["it-2"]
    assert (second.delay_quantile, second.delay_seconds) == (0.95, 10.0)
    assert subtasks["it-1"].delay_quantile == 0.0


def test_a_failed_committee_may_be_asked_again_or_left_out(tmp_path: Path) -> None:
    text = "name: x\nsteps:\n- {committee: Why so, id: c, on_error: {retry: 1, then: continue}}\n- {task: end}"
    subtasks = known(load(tmp_path, text))
    assert not subtasks["c"].critical
    assert subtasks["c"].expand_on_failure
    again = known(load(tmp_path, text), {"c": ValueError("a tie")})
    assert list(again) == ["c-1", "c-2", "c-3", "c", "c~2-1", "c~2-2", "c~2-3", "c~2", "step-2"]


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ("{committee: Why so, members: 1}", "members"),
        (f"{{committee: Why so, members: {MAX_MEMBERS + 1}}}", "members"),
        ("{committee: Why so, role: r}", "a step has one of them"),
        ("{committee: Why so, copies: 2}", "copies does not belong to a step with committee"),
        ("{committee: Why so, roles: []}", "roles"),
        ("{committee: 'why {{ x }}'}", "x is neither a parameter nor"),
        ("{swarm: Why so}", "a step with swarm needs items"),
        ("{swarm: Why so, items: text}", "must be a list, or a template"),
        ("{swarm: Why so, items: [1], arbiter: a}", "arbiter does not belong to a step with swarm"),
        ("{swarm: Why so, items: [1], tries: 0}", "tries"),
        ("{tool: t, copies: 2}", "copies does not belong to a step with tool"),
        ("{role: r, task: t, copies: 2, hedge_after: 3}", "has copies and hedge_after: a step has one of them"),
        ("{role: r, task: t, hedge_after: 0}", "hedge_after"),
        ("{role: r, task: t, hedge_after: p50}", "hedge_after"),
        ("{tool: t, hedge_after: p95}", "hedge_after does not belong to a step with tool"),
        ("{task: t, members: 2}", "members does not belong to a step with task"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, step: str, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        load(tmp_path, f"name: x\nsteps:\n- {step}")


def test_another_step_cannot_have_the_id_of_a_member(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="c-1 is the id of a part of the step c"):
        load(tmp_path, "name: x\nsteps:\n- {committee: Why so, id: c}\n- {task: t, id: c-1}")
