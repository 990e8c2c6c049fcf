"""The answer of a task from the results of its subtasks."""

from __future__ import annotations

import json

import pytest

from archon_mesh.core.messages import ChatMessage
from archon_mesh.engine.plan import SubTaskStatus
from archon_mesh.engine.plan.synthesis import (
    MAX_SHOWN,
    final_results,
    only_result,
    read_synthesis,
    synthesis_messages,
)
from tests.unit.mesh.engine.plan.plans import step, task_of

DONE, FAILED = SubTaskStatus.COMPLETED, SubTaskStatus.FAILED
PRICE = step("price", status=DONE, result={"eur": 3})
TEXT = step("text", "price", status=DONE, result="It costs 3 €.")
OTHER = step("other", status=DONE, result="Unrelated.")
BROKEN = step("broken", "price", status=FAILED, result="no route")


def test_a_result_on_which_nothing_builds_is_final() -> None:
    assert final_results(task_of(PRICE, TEXT, OTHER)) == [TEXT, OTHER]
    assert final_results(task_of(PRICE, BROKEN)) == [PRICE], "what failed builds on nothing"
    assert final_results(task_of(step("1"))) == []


def test_the_only_result_is_the_answer() -> None:
    assert only_result(task_of(PRICE, TEXT)) == "It costs 3 €."
    assert only_result(task_of(PRICE)) == '{"eur": 3}'
    assert only_result(task_of(PRICE, TEXT, OTHER)) is None, "two results are to be combined"
    assert only_result(task_of(PRICE, BROKEN)) is None, "something is missing"
    assert only_result(task_of()) is None


def test_the_model_gets_query_goal_and_results() -> None:
    task = task_of(PRICE, TEXT, BROKEN, query="What does é cost?", goal="the price")
    system, user = synthesis_messages(task)
    assert system == ChatMessage(
        "system",
        "You write the answer to a query from the results of the steps that were taken for it. The user's JSON object "
        "has the query, the goal and the results. Answer the query completely and directly; do not describe the "
        "steps. Use only the results, and say what is missing if a step has none. `refused` says why an earlier answer "
        "was not accepted.",
    )
    assert user.role == "user"
    assert "é" in user.content, "text is not escaped"
    assert json.loads(user.content) == {
        "query": "What does é cost?",
        "goal": "the price",
        "results": [
            {"step": "Do price", "status": "completed", "result": '{"eur": 3}'},
            {"step": "Do text", "status": "completed", "result": "It costs 3 €."},
            {"step": "Do broken", "status": "failed", "result": "no route"},
        ],
    }


def test_a_refused_answer_is_told_why() -> None:
    assert json.loads(synthesis_messages(task_of(OTHER), "too short")[1].content)["refused"] == "too short"


def test_a_long_result_is_cut() -> None:
    task = task_of(step("1", status=DONE, result="x" * (MAX_SHOWN + 1)))
    (result,) = json.loads(synthesis_messages(task)[1].content)["results"]
    assert result["result"] == "x" * MAX_SHOWN


def test_the_results_are_read_back() -> None:
    messages = synthesis_messages(task_of(PRICE, OTHER))
    expected = json.loads(messages[1].content)["results"]
    assert read_synthesis(messages) == expected
    again = ChatMessage("user", '{"results": [{"step": "x"}, "no object"]}')
    assert read_synthesis([*messages, again]) == [{"step": "x"}], "of several, the last"
    assert read_synthesis([*messages, ChatMessage("assistant", "{}")]) == expected


@pytest.mark.parametrize("content", ["{", "{}", "[1]", "1", '{"results": {}}', "[" * 100_000])
def test_other_messages_do_not_ask_for_an_answer(content: str) -> None:
    system, user = synthesis_messages(task_of(OTHER))
    assert read_synthesis([user]) is None
    assert read_synthesis([ChatMessage("user", system.content), user]) is None
    assert read_synthesis([ChatMessage("system", "Be brief."), user]) is None
    assert read_synthesis([system]) is None
    assert read_synthesis([system, ChatMessage("user", content)]) is None
