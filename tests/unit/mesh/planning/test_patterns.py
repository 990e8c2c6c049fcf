"""Patterns: the subtasks that they make, and what comes of them in a process."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from archon.errors import InvalidArgument
from archon_mesh.engine.plan import InvalidPlan, SubTask, SubTaskStatus, Task, find_faults
from archon_mesh.planning import (
    PlanEventKind,
    PlanExecutor,
    PlanFailed,
    auction,
    committee,
    debate,
    hedged,
    redundant,
    settled,
)
from tests.unit.mesh.planning.workers import FunctionWorker, executor_of


def answering(*answers: Any) -> FunctionWorker:
    """A worker whose roles m1, m2 and so on give these answers; an exception is raised. The role judge says `judged`."""

    def role(answer: Any) -> Any:
        def reply(message: str) -> Any:
            if isinstance(answer, Exception):
                raise answer
            return answer

        return reply

    roles = {f"m{number}": role(answer) for number, answer in enumerate(answers, 1)}
    return FunctionWorker(roles=roles | {"judge": lambda message: "judged"})


def plan(*subtasks: SubTask) -> Task:
    return Task("task-1", "How many?", "How many?", subtasks)


def committee_of(count: int, **options: Any) -> Task:
    return plan(*committee("How many?", members=count, roles=[f"m{n}" for n in range(1, count + 1)], **options))


def result(task: Task) -> Any:
    return task.subtasks[-1].result


async def test_the_answer_of_most_members_counts() -> None:
    worker = answering("360", "12", "361")
    done = await executor_of(worker).execute(committee_of(3))
    assert result(done) == "360"
    assert all(each.status is SubTaskStatus.COMPLETED for each in done.subtasks)
    assert len(worker.messages) == 3


async def test_an_arbiter_decides_a_tie_with_the_answers_before_it() -> None:
    worker = answering("1", "2")
    done = await executor_of(worker).execute(committee_of(2, arbiter="judge"))
    assert result(done) == "judged"
    message = worker.messages[-1]
    assert "no rule has decided" in message
    assert "How many?" in message
    assert "\n1\n" in f"{message}\n"


async def test_a_tie_without_an_arbiter_fails_and_says_so() -> None:
    events: list[str] = []
    executor = executor_of(answering("1", "2"), on_event=lambda event: events.append(f"{event.kind} {event.message}"))
    with pytest.raises(PlanFailed):
        await executor.execute(committee_of(2))
    assert any(line.startswith(f"{PlanEventKind.SUBTASK_FAILED} undecided: a tie") for line in events)


async def test_a_member_that_fails_has_no_vote() -> None:
    done = await executor_of(answering("7", InvalidArgument("no"), "7")).execute(committee_of(3))
    assert result(done) == "7"


async def test_one_member_alone_is_no_majority() -> None:
    failing = InvalidArgument("no")
    with pytest.raises(PlanFailed):
        await executor_of(answering("7", failing, failing)).execute(committee_of(3))


async def test_the_first_copy_counts_and_the_others_are_cancelled() -> None:
    cancelled: list[str] = []

    async def think(message: str) -> str:
        if len(worker.messages) == 2:
            return "quick"
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(message)
            raise
        return "never"

    worker = FunctionWorker(think=think)
    done = await executor_of(worker).execute(plan(*redundant(SubTask("x", "Do x"), copies=3)))
    assert result(done) == "quick"
    assert len(cancelled) == 2
    assert sorted(each.status.value for each in done.subtasks) == ["completed", "completed", "skipped", "skipped"]


async def test_a_hedge_is_not_made_if_the_first_attempt_is_quick() -> None:
    worker = FunctionWorker(think=lambda message: "quick")
    done = await executor_of(worker).execute(plan(*hedged(SubTask("x", "Do x"), 60)))
    assert result(done) == "quick"
    assert len(worker.messages) == 1


async def test_a_hedge_starts_at_once_if_the_first_attempt_fails() -> None:
    def think(message: str) -> str:
        if len(worker.messages) == 1:
            raise InvalidArgument("no")
        return "second"

    worker = FunctionWorker(think=think)
    done = await executor_of(worker).execute(plan(*hedged(SubTask("x", "Do x"), 3_600)))
    assert result(done) == "second"


async def test_a_plan_with_a_decision_that_does_not_exist_is_refused() -> None:
    task = plan(SubTask("a", "Do a"), SubTask("b", "Do b", dependencies=("a",), decision="toss"))
    with pytest.raises(InvalidPlan, match="there is no decision 'toss'"):
        await executor_of(FunctionWorker()).execute(task)


def test_patterns_are_plans_without_faults() -> None:
    step = SubTask("x", "Do x")
    for subtasks in (committee("How?"), redundant(step), hedged(step, 5), committee("How?", arbiter="judge")):
        task = Task("t", "How?", "How?", subtasks)
        assert find_faults(task, tools=(), roles=("judge",), capabilities=()) == ()


def test_members_have_roles_in_turn_and_the_dependencies_of_the_committee() -> None:
    *members, decided = committee("How?", members=3, roles=["a", "b"], dependencies=["d"], id="c")
    assert [(each.id, each.role, each.dependencies) for each in members] == [
        ("c-1", "a", ("d",)),
        ("c-2", "b", ("d",)),
        ("c-3", "a", ("d",)),
    ]
    assert (decided.id, decided.dependencies) == ("c", ("c-1", "c-2", "c-3"))


def settled_by(*roles: str, **options: Any) -> Task:
    return plan(*settled("How many?", roles=roles, **options))


async def test_answers_are_settled_by_majority_or_else_by_the_arbiter() -> None:
    done = await executor_of(answering("12", "14", "12.1")).execute(settled_by("m1", "m2", "m3", arbiter="judge"))
    assert result(done) == "12"
    done = await executor_of(answering("12", "14")).execute(settled_by("m1", "m2", arbiter="judge"))
    assert result(done) == "judged"


def test_settled_compares_the_results_of_given_subtasks() -> None:
    asked = [SubTask("a", "Count.", role="m1"), SubTask("b", "Look it up.", role="m2")]
    *given, decided = settled(asked, id="n", order=["authority"], weights={"b": 2}, arbiter="judge")
    assert given == asked
    assert (decided.id, decided.description, decided.dependencies) == ("n", "Count.", ("a", "b"))
    assert decided.tool_args == {"order": ["authority"], "weights": {"b": 2}}
    assert not find_faults(plan(*given, decided), tools=[], roles=["m1", "m2", "judge"], capabilities=None)


@pytest.mark.parametrize(
    "options",
    [
        {"roles": ["a"]},
        {"roles": ["a"] * 20},
        {"roles": ["a", "b"], "order": ["dice"]},
        {"roles": ["a", "b"], "least": 2},
        {"question": [SubTask("a", "x"), SubTask("b", "y")], "roles": ["a"]},
        {"question": [SubTask("a", "x")]},
    ],
)
def test_wrong_options_of_settled_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        settled(**{"question": "How?", **options})


@pytest.mark.parametrize("count", [-1, 0, 1, 20, 10_000])
def test_patterns_have_two_members_at_least_and_fit_into_a_plan(count: int) -> None:
    with pytest.raises(InvalidArgument, match="2 to 19"):
        committee("How?", members=count)
    with pytest.raises(InvalidArgument, match="2 to 19"):
        redundant(SubTask("x", "Do x"), count)


@pytest.mark.parametrize("after", [0, -1, float("nan"), float("inf"), 1e12])
def test_a_hedge_has_a_time(after: float) -> None:
    with pytest.raises(InvalidArgument):
        hedged(SubTask("x", "Do x"), after)


def test_a_tool_that_may_act_twice_is_not_hedged() -> None:
    subtask = SubTask("x", "Book it", tool_name="book")
    with pytest.raises(InvalidArgument, match="may act twice"):
        hedged(subtask, 5)
    assert hedged(subtask, 5, is_idempotent=True)[1].delay_seconds == 5


def test_a_hedge_after_the_measured_time_has_a_time_for_the_first_runs() -> None:
    first, second, joined = hedged(SubTask("x", "Do x", role="r"), 4, after="p95")
    assert (first.delay_quantile, second.delay_quantile, second.delay_seconds) == (0.0, 0.95, 4.0)
    assert joined.quorum == 1
    assert hedged(SubTask("x", "Do x"), after="p95")[1].delay_seconds == 10
    with pytest.raises(InvalidArgument, match="not after 'p50'"):
        hedged(SubTask("x", "Do x"), after="p50")
    with pytest.raises(InvalidArgument, match="may act twice"):
        hedged(SubTask("x", "Book it", tool_name="book"), after="p95")


@pytest.mark.parametrize("earlier", [20, 19])
async def test_a_hedge_in_a_process_waits_for_the_measured_time_of_its_role(earlier: int) -> None:
    asked: list[float] = []

    async def work(message: str) -> str:
        if "Do x" in message:
            asked.append(asyncio.get_running_loop().time())
            if len(asked) == 1:
                await asyncio.Event().wait()
        return "done"

    worker = FunctionWorker(roles={"r": work})
    before = [SubTask(f"s{number}", "Warm up", role="r") for number in range(earlier)]
    names = tuple(step.id for step in before)
    steps = hedged(SubTask("x", "Do x", dependencies=names, role="r"), 30.0, after="p95")
    sleeps: list[float] = []

    async def sleep(seconds: float) -> None:
        sleeps.append(seconds)

    done = await PlanExecutor(worker, sleep=sleep).execute(plan(*before, *steps))
    assert result(done) == "done"
    assert len(asked) == 2
    assert (max(sleeps) < 29) == (earlier == 20), "fewer than 20 attempts say nothing"


@pytest.mark.parametrize("options", [{"least": 2}, {"weight": "heavy"}, {"weights": {"a": -1}}, {"roles": []}])
def test_wrong_options_of_a_committee_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        committee("How?", **options)


def bidding(**bids: Any) -> FunctionWorker:
    """A worker whose roles reply with these bids, or raise them, and do the work with their names."""

    def role(name: str, bid: Any) -> Any:
        def reply(message: str) -> Any:
            if "Do not do this yet" not in message:
                return name
            if isinstance(bid, Exception):
                raise bid
            return bid

        return reply

    return FunctionWorker(roles={name: role(name, bid) for name, bid in bids.items()})


def bid(seconds: float) -> str:
    return json.dumps({"cost_micro_usd": 100, "seconds": seconds, "quality": 0.5})


async def test_the_role_with_the_best_bid_does_the_work() -> None:
    worker = bidding(slow=bid(100), quick=bid(10))
    done = await executor_of(worker).execute(plan(*auction(SubTask("x", "Do it."), roles=["slow", "quick"])))
    assert result(done) == "quick"
    assert done.subtasks[-1].id == "x"


async def test_without_a_bid_the_work_is_done_by_its_own_role() -> None:
    worker = bidding(slow="I would need an hour.", broken=RuntimeError("no"))
    steps = auction(SubTask("x", "Do it.", role="slow"), roles=["slow", "broken"])
    assert result(await executor_of(worker).execute(plan(*steps))) == "slow"


async def test_a_bid_that_does_not_come_in_time_does_not_count() -> None:
    async def wait(message: str) -> str:
        await asyncio.Event().wait()
        return ""

    worker = FunctionWorker(roles={"silent": wait, "slow": lambda message: bid(100) if "yet" in message else "slow"})
    steps = auction(SubTask("x", "Do it."), roles=["silent", "slow"], seconds=0.05)
    assert result(await executor_of(worker).execute(plan(*steps))) == "slow"


def test_an_auction_keeps_the_dependencies_of_its_subtask() -> None:
    steps = auction(SubTask("x", "Do it.", dependencies=("before",)), roles=["a", "b"])
    assert [step.dependencies for step in steps] == [
        ("before",),
        ("before",),
        ("x-bid-1", "x-bid-2"),
        ("before", "x-award"),
    ]
    assert find_faults(plan(SubTask("before", "Begin."), *steps), tools=(), roles=("a", "b"), capabilities=()) == ()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"roles": ["a"]}, "2 to 19 bidders"),
        ({"roles": ["a", ""]}, "candidates of an auction are roles"),
        ({"roles": ["a", "b"], "seconds": 0}, "more than 0 s"),
        ({"roles": ["a", "b"], "cost": -1}, "'cost' must be a number"),
        ({"roles": ["a", "b"], "least_quality": 2}, "'least_quality' must be a number"),
    ],
)
def test_a_wrong_auction_is_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidArgument, match=problem):
        auction(SubTask("x", "Do it."), **options)


async def test_a_debate_shows_each_side_the_last_answer_of_the_other() -> None:
    worker = answering("It is 12.", "It is 10.")
    steps = debate("How many?", roles=("m1", "m2"), judge="judge", rounds=2)
    assert result(await executor_of(worker).execute(plan(*steps))) == "judged"
    assert len(worker.messages) == 5
    replies = [message for message in worker.messages[:-1] if "Reply to the other answer" in message]
    assert len(replies) == 2
    assert all("It is 12." in message and "It is 10." in message for message in replies)
    assert "It is 12." in worker.messages[-1]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"roles": ("a",), "judge": "c"}, "needs two roles and a judge"),
        ({"roles": ("a", "b"), "judge": ""}, "needs two roles and a judge"),
        ({"roles": ("a", "b"), "judge": "c", "rounds": 0}, "has 1 to 9 rounds, not 0"),
    ],
)
def test_a_wrong_debate_is_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidArgument, match=problem):
        debate("How many?", **options)
