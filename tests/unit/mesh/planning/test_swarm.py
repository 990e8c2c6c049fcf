"""A swarm in a process: several members take the items of one list, each once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from archon.agent.work_item import WorkResults
from archon.errors import InvalidArgument, Unavailable
from archon_mesh.engine.plan import SubTask, SubTaskStatus, Task, find_faults
from archon_mesh.planning import swarm
from archon_mesh.planning.swarm import MAX_SHOWN_BYTES, RESULTS_SCHEMA, SwarmPart, goal_of, shown_results
from tests.unit.mesh.planning.workers import FunctionWorker, executor_of


def plan(*subtasks: SubTask) -> Task:
    return Task("task-1", "Translate.", "Translate.", subtasks)


def item_in(message: str) -> str:
    return message.partition("reply with its result:\n")[2].partition("\n")[0]


def result(task: Task) -> Any:
    value = task.subtasks[-1].result
    return json.loads(value) if isinstance(value, str) and value.startswith("{") else value


async def test_three_members_do_fifty_items_once_each() -> None:
    worker = FunctionWorker(roles={f"m{n}": lambda message: f"<{item_in(message)}>" for n in (1, 2, 3)})
    steps = swarm("Translate.", roles=["m1", "m2", "m3"], items=[f"page {n}" for n in range(50)])
    done = await executor_of(worker).execute(plan(*steps))
    assert result(done) == {"results": {str(n + 1): f"<page {n}>" for n in range(50)}, "failed": {}}
    assert sorted(map(item_in, worker.messages)) == sorted(f"page {n}" for n in range(50))


async def test_an_item_that_fails_in_every_hand_is_reported() -> None:
    def reply(message: str) -> str:
        if item_in(message) == "bad":
            raise Unavailable("no luck")
        return "good"

    worker = FunctionWorker(roles={"m1": reply, "m2": reply})
    steps = swarm("Do it.", roles=["m1", "m2"], members=2, items=["a", "bad", "c"], tries=2)
    done = await executor_of(worker).execute(plan(*steps))
    assert result(done)["results"] == {"1": "good", "3": "good"}
    assert "no luck" in result(done)["failed"]["2"]
    assert list(map(item_in, worker.messages)).count("bad") == 2


async def test_a_failure_that_no_retry_helps_is_final() -> None:
    def reply(message: str) -> str:
        raise InvalidArgument("never")

    worker = FunctionWorker(roles={"m1": reply})
    done = await executor_of(worker).execute(plan(*swarm("Do it.", roles=["m1"], members=1, items=["a"])))
    assert list(result(done)["failed"]) == ["1"]
    assert len(worker.messages) == 1


async def test_a_first_step_lists_the_items_and_a_last_one_gathers() -> None:
    roles = {
        "lister": lambda message: json.dumps({"items": ["a", {"b": 1}]}),
        "m1": lambda message: f"<{item_in(message)}>",
        "writer": lambda message: "gathered" if '"1": "<a>"' in message else message,
    }
    worker = FunctionWorker(roles=roles)
    steps = swarm("Do it.", roles=["m1"], members=2, lister="lister", gather="writer")
    done = await executor_of(worker).execute(plan(*steps))
    assert [step.id for step in steps] == ["swarm-items", "swarm-1", "swarm-2", "swarm-results", "swarm"]
    assert result(done) == "gathered"
    assert sorted(map(item_in, worker.messages))[-2:] == ["a", '{"b": 1}']


async def test_an_empty_list_is_done_at_once() -> None:
    worker = FunctionWorker(roles={"m1": lambda message: "never"})
    done = await executor_of(worker).execute(plan(*swarm("Do it.", roles=["m1"], items=[])))
    assert result(done) == {"results": {}, "failed": {}}
    assert worker.messages == []


async def test_members_that_only_think_take_items_too() -> None:
    worker = FunctionWorker(think=lambda message: item_in(message).upper())
    done = await executor_of(worker).execute(plan(*swarm("Do it.", members=2, items=["a", "b"])))
    assert result(done)["results"] == {"1": "A", "2": "B"}


async def test_items_with_braces_stay_as_they_are() -> None:
    worker = FunctionWorker(think=item_in)
    items = ["{swarm-1}", "{{x}}", '{"a": "{b}"}', "}{"]
    done = await executor_of(worker).execute(plan(*swarm("Do it.", members=2, items=items)))
    assert list(result(done)["results"].values()) == items


async def test_two_swarms_of_a_plan_have_lists_of_their_own() -> None:
    worker = FunctionWorker(think=item_in)
    first = swarm("Do it.", members=2, items=["a"], id="one")
    second = swarm("Do it.", members=2, items=["a", "b"], id="two", dependencies=["one"])
    executor = executor_of(worker)
    done = await executor.execute(plan(*first, *second))
    assert result(done)["results"] == {"1": "a", "2": "b"}
    assert len(worker.messages) == 3
    await executor.execute(plan(*first))  # another plan has lists of its own, too
    assert len(worker.messages) == 4


def test_the_subtasks_of_a_swarm_have_no_faults_and_need_no_repair() -> None:
    task = plan(*swarm("Do it.", roles=["a", "b"], items=[1, 2], members=3, gather="a"))
    assert list(find_faults(task, tools=(), roles=("a", "b"), capabilities=())) == []
    members = [each for each in task.subtasks if each.output_schema == RESULTS_SCHEMA]
    assert [member.role for member in members] == ["a", "b", "a"]
    assert not any(member.critical for member in members)
    assert {goal_of(member.description) for member in members} == {"Do it."}
    assert task.subtasks[-1].status is SubTaskStatus.PENDING


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"members": 0}, "1 to 19 members"),
        ({"members": 20}, "1 to 19 members"),
        ({"members": 19, "gather": "r"}, "1 to 18 members"),
        ({"members": 19, "items": None}, "1 to 18 members"),
        ({"roles": []}, "at least one role"),
        ({"tries": 0}, "tried 1 to 20 times"),
        ({"items": [object()]}, "JSON values"),
        ({"items": range(1001)}, "at most 1,000 items"),
        ({"items": ["x" * 500_000]}, "have a first step list them"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        swarm("Do it.", **({"items": ["a"]} | options))


def test_the_arguments_of_other_subtasks_are_no_part_of_a_swarm() -> None:
    assert SwarmPart.of({"city": "Rome"}) is None
    with pytest.raises(InvalidArgument, match="are no list"):
        SwarmPart.of({"work_list": "x", "items": "y"})
    part = SwarmPart.of({"work_list": "step 1/é", "items": ["a"], "tries": 5})
    assert part is not None
    assert part.name.startswith("step-1--.")
    assert (part.items, part.tries) == ({"1": "a"}, 5)
    other = SwarmPart.of({"work_list": "step 1/é", "items": ["b"]})
    assert other is not None
    assert other.name != part.name


def test_results_that_are_too_large_together_are_left_out() -> None:
    large = "x" * (MAX_SHOWN_BYTES // 2)
    shown = shown_results(WorkResults({"1": large, "2": large, "3": "small"}, {"4": "no"}, ()))
    assert list(shown["results"]) == ["1", "3"]
    assert (shown["failed"], shown["left_out"]) == ({"4": "no"}, ["2"])
