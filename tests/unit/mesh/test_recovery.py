"""The recovery of a process: users' handlers first, then the advice of the catalogue."""

from __future__ import annotations

import pytest

from archon.errors import ArchonError, Internal, InvalidArgument, ResourceExhausted, Unavailable
from archon_mesh.agent import Agent, RecoveryMiddleware
from archon_mesh.llm import ScriptedModel
from archon_mesh.recovery import (
    ErrorContext,
    ErrorSeverity,
    Recovery,
    RecoveryAction,
    RecoveryOrchestrator,
    recovered,
)
from tests.fixtures.scripted_model import says

REFUSED = Unavailable("connection refused", kind="model.provider")
TIMEOUT = Internal("no answer", kind="tool.timeout")


async def decided(recovery: RecoveryOrchestrator, error: ArchonError, attempt: int = 1) -> RecoveryAction:
    return (await recovery.handle_error(ErrorContext(error, "poet", attempt))).action


async def test_a_failure_is_retried_as_its_kind_advises_three_times_in_all() -> None:
    recovery = RecoveryOrchestrator()
    assert [await decided(recovery, REFUSED, attempt) for attempt in (1, 2, 3)] == [
        RecoveryAction.RETRY,
        RecoveryAction.RETRY,
        RecoveryAction.FAIL,
    ]
    assert await decided(recovery, InvalidArgument("no such field")) is RecoveryAction.FAIL


async def test_the_pause_follows_the_failure_or_doubles_with_full_jitter() -> None:
    recovery = RecoveryOrchestrator(max_attempts=100)
    asked = await recovery.handle_error(ErrorContext(ResourceExhausted("busy", retry_delay=7.0)))
    assert asked.delay == 7.0
    for attempt, ceiling in ((1, 0.5), (3, 2.0), (20, 30.0)):
        delays = [(await recovery.handle_error(ErrorContext(REFUSED, attempt=attempt))).delay for _ in range(50)]
        assert 0.0 <= min(delays) < ceiling / 2 < max(delays) <= ceiling


async def test_handlers_of_the_kind_come_before_those_of_the_class_and_of_all() -> None:
    recovery = RecoveryOrchestrator()
    asked: list[str] = []

    def handler(name: str, decision: Recovery | None = None) -> None:
        def handle(context: ErrorContext) -> Recovery | None:
            asked.append(name)
            return decision

        recovery.register_handler(name.partition("/")[0], handle)

    handler("*", Recovery.answer("last resort"))
    handler("tool")
    handler("tool.timeout/older")
    handler("tool.timeout/newer")
    handler("tool.crash", Recovery.fail())
    decision = await recovery.handle_error(ErrorContext(TIMEOUT))
    assert asked == ["tool.timeout/newer", "tool.timeout/older", "tool", "*"]
    assert decision.substitute == "last resort"


async def test_a_handler_may_be_async_and_one_that_raises_is_skipped(caplog: pytest.LogCaptureFixture) -> None:
    recovery = RecoveryOrchestrator()

    @recovery.register_handler("tool")
    async def answers(context: ErrorContext) -> Recovery:
        return Recovery.answer(f"{context.component}, attempt {context.attempt}: {context.error}")

    @recovery.register_handler("tool")
    def broken(context: ErrorContext) -> Recovery:
        raise ValueError("a bug")

    decision = await recovery.handle_error(ErrorContext(TIMEOUT, "poet", 2))
    assert decision.substitute == "poet, attempt 2: no answer"
    assert "a handler for tool failed" in caplog.text


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"unknown kind of failure 'tool\.timeouts'"):
        RecoveryOrchestrator().register_handler("tool.timeouts", lambda context: None)


async def test_the_fourth_failure_of_a_kind_is_of_high_severity() -> None:
    recovery, severities = RecoveryOrchestrator(), list[ErrorSeverity]()
    recovery.register_handler("*", lambda context: severities.append(context.severity))
    for error in (TIMEOUT, TIMEOUT, InvalidArgument("x"), TIMEOUT, TIMEOUT, InvalidArgument("x")):
        await recovery.handle_error(ErrorContext(error))
    assert [severity.name for severity in severities] == ["MEDIUM", "MEDIUM", "LOW", "MEDIUM", "HIGH", "LOW"]


async def test_of_several_failures_the_most_severe_is_handled_first() -> None:
    recovery, handled = RecoveryOrchestrator(), list[str]()
    recovery.register_handler("*", lambda context: handled.append(context.error.message))
    low, high, critical = (
        InvalidArgument("low"),
        Unavailable("high"),
        Internal("critical", severity=ErrorSeverity.CRITICAL),
    )
    decisions = await recovery.handle_errors([ErrorContext(error) for error in (low, high, critical)])
    assert handled == ["critical", "high", "low"]
    assert [decision.action for decision in decisions] == [
        RecoveryAction.FAIL,
        RecoveryAction.RETRY,
        RecoveryAction.FAIL,
    ]


async def test_work_is_repeated_after_the_delay_until_it_succeeds() -> None:
    outcomes: list[ArchonError | str] = [ResourceExhausted("busy", retry_delay=2.0), REFUSED, "done"]
    slept: list[float] = []

    async def work() -> str:
        outcome = outcomes.pop(0)
        if isinstance(outcome, ArchonError):
            raise outcome
        return outcome

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    assert await recovered(work, RecoveryOrchestrator(), str, sleep=sleep) == "done"
    assert slept[0] == 2.0 and 0.0 <= slept[1] <= 1.0


async def test_an_agent_repeats_or_replaces_a_failed_model_call() -> None:
    recovery = RecoveryOrchestrator()
    later = Unavailable("connection refused", kind="model.provider", retry_delay=0.0)
    agent = Agent("poet", model=ScriptedModel([later, says("a poem")]), middlewares=[RecoveryMiddleware(recovery)])
    assert await agent.run_async("write") == "a poem"

    @recovery.register_handler("model")
    def apologize(context: ErrorContext) -> Recovery:
        return Recovery.answer(f"{context.component} has no model")

    agent = Agent("poet", model=ScriptedModel([REFUSED]), middlewares=[RecoveryMiddleware(recovery)])
    assert await agent.run_async("write") == "poet has no model"
