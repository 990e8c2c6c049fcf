"""The engine: retries, timeouts, alternatives, circuit breaker, rates, cache, limits, health."""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable
from typing import Any

import pytest

from archon.errors import ArchonError, InvalidArgument, NotFound, PermissionDenied, ResourceExhausted, Unavailable
from archon_mesh.tools import FunctionTool, Tool, ToolExecutionEngine, ToolHealth, ToolRegistry, ToolResult, tool
from archon_mesh.tools.breaker import FAILURES, OPEN_SECONDS
from archon_mesh.tools.health import SLOW_SECONDS
from tests.fixtures.virtual_time import VirtualTime


class Flaky:
    """A tool that raises the given errors, one per call, and then answers. Counts its calls."""

    def __init__(self, *errors: BaseException, **declared: Any) -> None:
        self.errors = list(errors)
        self.calls = 0

        async def flaky(n: int = 0) -> str:
            self.calls += 1
            if self.errors:
                raise self.errors.pop(0)
            return f"answer {n}"

        self.tool = FunctionTool(flaky, "flaky", **declared)


class HttpError(Exception):
    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}")
        self.status = status


def engine(*tools: Any, time: VirtualTime | None = None, **more: Any) -> ToolExecutionEngine:
    time = time or VirtualTime()
    return ToolExecutionEngine(
        ToolRegistry(tools), clock=time.clock, sleep=time.sleep, **{"random": lambda: 0.5, **more}
    )


async def never(n: int = 0) -> str:
    """Waits for ever."""
    await asyncio.Event().wait()
    return "never"


@pytest.mark.parametrize(
    "error",
    [
        Unavailable("down"),
        ConnectionResetError("reset"),
        TimeoutError("of a socket"),
        HttpError(503),
        HttpError(429),
        ResourceExhausted("busy", retry_delay=0.1),
    ],
)
async def test_transient_failure_of_an_idempotent_tool_is_retried(error: Exception) -> None:
    flaky = Flaky(error, idempotent=True)
    result = await engine(flaky.tool).execute_tool_call("flaky")
    assert (result.ok, result.metadata["attempts"], flaky.calls) == (True, 2, 2)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ValueError("wrong"), "tool.crash"),
        (HttpError(404), "tool.crash"),
        (HttpError(403), "tool.permission"),
        (PermissionError("file"), "tool.permission"),
        (MemoryError(), "tool.resource_exhaustion"),
        (OSError(errno.ENOSPC, "full"), "tool.resource_exhaustion"),
        (NotFound("no such row"), "input.not_found"),
        (SystemExit(503), "tool.crash"),
    ],
)
async def test_permanent_failure_is_not_retried_and_has_its_kind(error: BaseException, kind: str) -> None:
    flaky = Flaky(error, idempotent=True)
    result = await engine(flaky.tool).execute_tool_call("flaky")
    assert (result.metadata["kind"], result.metadata["attempts"]) == (kind, 1)


@pytest.mark.parametrize(
    ("declared", "calls"),
    [({}, 1), ({"idempotent": True}, 3), ({"retries": 1}, 2), ({"idempotent": True, "retries": 0}, 1)],
)
async def test_only_a_tool_that_is_safe_to_repeat_is_retried(declared: dict[str, Any], calls: int) -> None:
    flaky = Flaky(*(Unavailable("down") for _ in range(9)), **declared)
    result = await engine(flaky.tool).execute_tool_call("flaky")
    assert (flaky.calls, result.metadata["attempts"]) == (calls, calls)
    assert result.metadata["code"] == "UNAVAILABLE"


async def test_pauses_double_with_full_jitter_and_honour_the_asked_delay() -> None:
    time = VirtualTime()
    draws = iter([1.0, 0.25, 0.0, 0.5])
    flaky = Flaky(*(Unavailable("x") for _ in range(3)), Unavailable("x", retry_delay=3.0), retries=4)
    run = engine(flaky.tool, time=time, random=lambda: next(draws))
    assert (await run.execute_tool_call("flaky")).ok
    assert time.slept == [0.5, 0.25, 0.0, 3.0 + 0.5 * 4.0]


async def test_delay_that_is_too_long_is_left_to_the_caller() -> None:
    flaky = Flaky(Unavailable("x", retry_delay=60.0), idempotent=True)
    outcome = await engine(flaky.tool).run("flaky")
    assert (flaky.calls, isinstance(outcome.error, Unavailable)) == (1, True)


async def test_callers_time_limits_all_attempts_together() -> None:
    flaky = Flaky(*(Unavailable("x") for _ in range(9)), retries=9)
    time = VirtualTime()
    result = await engine(flaky.tool, time=time).execute_tool_call("flaky", None, 1.0)
    assert not result.ok
    assert time.now - 1_000 < 1.0
    assert flaky.calls == 3


async def test_timeout_is_retried_once_with_a_longer_limit() -> None:
    slow = FunctionTool(never, "slow", timeout=0.01, idempotent=True, retries=5)
    result = await engine(slow).execute_tool_call("slow")
    assert (result.status, result.metadata["attempts"]) == ("timeout", 2)
    assert result.error_message == "no answer within 0.02 s"


async def test_timeout_of_a_tool_that_may_have_acted_is_not_repeated() -> None:
    mail = FunctionTool(never, "mail", timeout=0.01, alternative="other_mail")
    other = Flaky()
    other.tool.name = "other_mail"
    result = await engine(mail, other.tool).execute_tool_call("mail")
    assert (result.status, result.metadata["attempts"], other.calls) == ("timeout", 1, 0)


async def test_alternative_answers_for_a_tool_that_timed_out_twice() -> None:
    time = VirtualTime()
    slow = FunctionTool(never, "slow", timeout=0.01, idempotent=True, alternative="flaky")
    other = Flaky()
    run = engine(slow, other.tool, time=time)
    result = await run.execute_tool_call("slow", {"n": 7})
    assert (result.content, result.metadata["tool_name"], result.metadata["alternative_to"]) == (
        "answer 7",
        "flaky",
        "slow",
    )
    assert run.health()["slow"].slow
    assert (await run.execute_tool_call("slow")).metadata["tool_name"] == "flaky", "preferred from now on"
    assert run.health()["slow"].calls == 1
    time.now += SLOW_SECONDS
    assert not run.health()["slow"].slow
    await run.execute_tool_call("slow")
    assert run.health()["slow"].calls == 2, "asked again after a while"


@pytest.mark.parametrize(
    ("error", "idempotent", "answers"),
    [
        (ConnectionError("x"), True, True),
        (ValueError("x"), True, True),
        (ValueError("x"), False, False),
        (NotFound("x"), True, False),
    ],
)
async def test_alternative_answers_for_a_broken_tool_if_that_is_safe(
    error: Exception, idempotent: bool, answers: bool
) -> None:
    main, other = Flaky(*[error] * 9, idempotent=idempotent, alternative="other"), Flaky()
    other.tool.name = "other"
    outcome = await engine(main.tool, other.tool).run("flaky")
    assert (outcome.result.ok, other.calls, outcome.error is None) == (answers, int(answers), answers)


async def test_failure_of_the_tool_stands_if_its_alternative_fails_too(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    main, other = Flaky(ValueError("mine"), idempotent=True, alternative="other"), Flaky(ValueError("others"))
    other.tool.name = "other"
    outcome = await engine(main.tool, other.tool).run("flaky")
    told = [record.getMessage() for record in caplog.records]
    assert "tool other has no answer in place of flaky: ValueError: others" in told
    assert (outcome.result.error_message, outcome.result.metadata["tool_name"]) == ("ValueError: mine", "flaky")
    assert str(outcome.error) == "mine"


async def test_alternative_of_an_alternative_is_not_asked() -> None:
    main, other = (Flaky(*[ValueError("x")] * 9, idempotent=True) for _ in range(2))
    main.tool.alternative, other.tool.name, other.tool.alternative = "other", "other", "flaky"
    await engine(main.tool, other.tool).execute_tool_call("flaky")
    assert (main.calls, other.calls) == (1, 1)


async def test_tool_that_answers_in_time_is_no_longer_slow() -> None:
    waits = iter([True, False])

    @tool(timeout=0.01)
    async def moody() -> None:
        """Waits for ever, once."""
        if next(waits):
            await asyncio.Event().wait()

    run = engine(moody)
    await run.execute_tool_call("moody")
    assert run.health()["moody"].slow
    assert (await run.execute_tool_call("moody")).ok
    assert not run.health()["moody"].slow


@pytest.mark.parametrize(
    ("metadata", "code", "kind"),
    [
        ({}, "UNKNOWN", "tool.crash"),
        ({"code": "NOT_FOUND", "reason": "NOT_FOUND", "kind": "input.not_found"}, "NOT_FOUND", "input.not_found"),
        ({"code": "x\ny", "reason": "NOT_FOUND", "kind": "input.not_found"}, "UNKNOWN", "tool.crash"),
        ({"code": 5, "reason": "A", "kind": "no.such"}, "UNKNOWN", "tool.crash"),
        ({"code": "A", "reason": [], "kind": []}, "UNKNOWN", "tool.crash"),
    ],
)
async def test_error_that_a_tool_returns_has_known_names(metadata: dict[str, Any], code: str, kind: str) -> None:
    run = engine(FunctionTool(lambda: ToolResult.error("no", metadata), "refuse"))
    result = await run.execute_tool_call("refuse")
    assert (result.metadata["code"], result.metadata["kind"], result.error_message) == (code, kind, "no")


@pytest.mark.parametrize("why", ["missing", "denied", "other schema", "off"])
async def test_alternative_that_cannot_answer_is_not_used(why: str) -> None:
    main = Flaky(*(ValueError("x") for _ in range(FAILURES)), alternative="other")
    other = FunctionTool(never if why != "other schema" else (lambda text: text), "other", timeout=0.01)
    tools = [main.tool] if why == "missing" else [main.tool, other]
    run = engine(*tools, permissions={"denied": ["other"]} if why == "denied" else None)
    if why == "off":
        for _ in range(FAILURES):
            await run.execute_tool_call("other")
    for _ in range(FAILURES):
        await run.execute_tool_call("flaky")
    result = await run.execute_tool_call("flaky", {"n": 1})
    assert "tool flaky is off for 30 s" in result.error_message


async def test_alternative_in_the_same_namespace_comes_first() -> None:
    main, near, far = Flaky(*(ValueError("x") for _ in range(FAILURES)), alternative="other"), Flaky(), Flaky()
    near.tool.name = far.tool.name = "other"
    registry = ToolRegistry([far.tool])
    registry.register_tool(main.tool, "web")
    registry.register_tool(near.tool, "web")
    run = ToolExecutionEngine(registry)
    for _ in range(FAILURES):
        await run.execute_tool_call("web.flaky")
    assert (await run.execute_tool_call("web.flaky")).metadata["tool_name"] == "web.other"


async def test_breaker_opens_per_tool_and_one_probe_closes_it() -> None:
    time = VirtualTime()
    flaky, other = Flaky(*(ValueError("x") for _ in range(FAILURES))), Flaky()
    other.tool.name = "other"
    run = engine(flaky.tool, other.tool, time=time)
    for _ in range(FAILURES):
        await run.execute_tool_call("flaky")
    refused = await run.run("flaky")
    assert isinstance(refused.error, Unavailable)
    assert (refused.result.metadata["attempts"], flaky.calls) == (0, FAILURES)
    assert run.health()["flaky"].breaker == "open"
    assert (await run.execute_tool_call("other")).ok
    time.now += OPEN_SECONDS
    assert run.health()["flaky"].breaker == "half_open"
    results = await asyncio.gather(run.execute_tool_call("flaky"), run.execute_tool_call("flaky"))
    assert [result.ok for result in results] == [True, False], "one probe at a time"
    assert run.health()["flaky"].breaker == "closed"


async def test_errors_about_the_call_do_not_open_the_breaker() -> None:
    errors: list[ArchonError] = [InvalidArgument("no"), NotFound("no"), PermissionDenied("no")] * FAILURES
    flaky = Flaky(*errors)
    run = engine(flaky.tool)
    for _ in errors:
        await run.execute_tool_call("flaky")
    assert run.health()["flaky"].breaker == "closed"
    assert (await run.execute_tool_call("flaky")).ok


async def test_cancelled_probe_does_not_block_the_next_one() -> None:
    time = VirtualTime()
    gate, flaky = asyncio.Event(), Flaky(*(ValueError("x") for _ in range(FAILURES)))

    class Gated(Tool):
        name = "gated"

        async def execute(self, **_: Any) -> Any:
            if not flaky.errors:
                await gate.wait()
            return await flaky.tool.execute()

    run = engine(Gated(), time=time)
    for _ in range(FAILURES):
        await run.execute_tool_call("gated")
    time.now += OPEN_SECONDS
    probe = asyncio.create_task(run.execute_tool_call("gated"))
    await asyncio.sleep(0)
    probe.cancel()
    await asyncio.gather(probe, return_exceptions=True)
    gate.set()
    assert (await run.execute_tool_call("gated")).ok


async def test_rate_of_a_tool_refuses_further_calls_with_a_delay() -> None:
    time = VirtualTime()
    flaky = Flaky(rate=2)
    run = engine(flaky.tool, time=time)
    results = [await run.run("flaky") for _ in range(3)]
    assert [each.result.ok for each in results] == [True, True, False]
    error = results[2].error
    assert isinstance(error, ResourceExhausted)
    assert error.retry_delay == 60
    time.now += 60
    assert (await run.execute_tool_call("flaky")).ok


async def test_retries_count_towards_the_rate() -> None:
    flaky = Flaky(*(Unavailable("x") for _ in range(5)), rate=2, idempotent=True)
    result = await engine(flaky.tool).execute_tool_call("flaky")
    assert (result.metadata["attempts"], flaky.calls) == (2, 2)


async def test_quota_of_the_engine_serves_critical_tools_first() -> None:
    time = VirtualTime()
    order: list[str] = []

    def named(name: str, critical: bool) -> FunctionTool:
        async def record() -> None:
            order.append(name)

        return FunctionTool(record, name, critical=critical, timeout=1_000)

    run = engine(named("first", False), named("plain", False), named("vital", True), time=time, quota=1)
    await run.execute_tool_call("first")
    async with asyncio.timeout(60):
        await asyncio.gather(*(run.execute_tool_call(name) for name in ("plain", "vital")))
    assert order == ["first", "vital", "plain"]


async def test_result_of_an_idempotent_tool_is_cached_by_its_arguments() -> None:
    time = VirtualTime()
    flaky = Flaky(idempotent=True, cache_seconds=60)
    run = engine(flaky.tool, time=time)
    first = await run.execute_tool_call("flaky", {"n": 1})
    again = await run.execute_tool_call("flaky", '{ "n": 1 }')
    assert (first.content, again.content, flaky.calls) == ("answer 1", "answer 1", 1)
    assert (again.metadata["cached"], again.metadata["attempts"]) == (True, 0)
    assert "cached" not in first.metadata
    await run.execute_tool_call("flaky", {"n": 2})
    time.now += 60
    await run.execute_tool_call("flaky", {"n": 1})
    assert flaky.calls == 3
    flaky.tool.version = "2"
    await run.execute_tool_call("flaky", {"n": 1})
    assert flaky.calls == 4, "another version"
    assert run.health()["flaky"].cached == 1


async def test_failure_is_not_cached_and_a_denied_tool_answers_nothing() -> None:
    flaky = Flaky(ValueError("x"), idempotent=True, cache_seconds=60)
    run = engine(flaky.tool, permissions={"sessions": {"s": {"denied": ["flaky"]}}})
    assert not (await run.execute_tool_call("flaky")).ok
    assert (await run.execute_tool_call("flaky")).ok
    assert (await run.execute_tool_call("flaky", session_id="s")).metadata["code"] == "PERMISSION_DENIED"


async def test_dangerous_tool_is_off_unless_allowed_by_its_name() -> None:
    flaky = Flaky(dangerous=True)
    refused = await engine(flaky.tool, permissions={"allowed": ["*"]}).execute_tool_call("flaky")
    assert refused.metadata["kind"] == "tool.permission"
    assert (await engine(flaky.tool, permissions={"allowed": ["flaky"]}).execute_tool_call("flaky")).ok
    assert flaky.calls == 1


@pytest.mark.parametrize("arguments", ['{"text": "' + "x" * 100 + '"}', {"text": "x" * 100}, {"text": "ü" * 45}])
async def test_arguments_above_the_tools_limit_are_refused(arguments: Any) -> None:
    @tool(max_input_bytes=100)
    def take(text: str) -> str:
        """Takes."""
        return text

    result = await engine(take).execute_tool_call("take", arguments)
    assert "are too large for tool take: its limit is 100 bytes" in result.error_message
    assert result.metadata["kind"] == "tool.resource_exhaustion"
    assert (await engine(take).execute_tool_call("take", {"text": "x" * 80})).ok


@pytest.mark.parametrize(
    "give", [lambda: "x" * 50_000_000, lambda: ["x" * 1000] * 1000, lambda: ToolResult.error("x" * 1_000_000)]
)
async def test_large_result_is_cut(give: Callable[[], Any]) -> None:
    result = await engine(FunctionTool(give, "give")).execute_tool_call("give")
    assert len(result.text) < 300_000
    assert "characters left out" in result.text


async def test_large_message_and_metadata_of_a_tool_are_cut(caplog: pytest.LogCaptureFixture) -> None:
    @tool
    def crash() -> None:
        """Raises."""
        raise ValueError("x" * 1_000_000)

    @tool
    def chatty() -> ToolResult:
        """Returns much."""
        return ToolResult.success("ok", {"rows": ["x" * 1000] * 1000})

    run = engine(crash, chatty)
    failed = await run.execute_tool_call("crash")
    assert failed.error_message.endswith("characters left out]")
    assert len(failed.error_message) < 5_000
    result = await run.execute_tool_call("chatty")
    assert (result.content, "rows" in result.metadata) == ("ok", False)
    assert "metadata of 10" in caplog.text
    assert len(caplog.text) < 50_000


async def test_traceback_is_logged_and_not_in_the_result(caplog: pytest.LogCaptureFixture) -> None:
    result = await engine(Flaky(ValueError("boom")).tool).execute_tool_call("flaky")
    assert "Traceback (most recent call last)" in caplog.text
    assert result.text == "ValueError: boom"


async def test_tool_that_ignores_its_cancellation_does_not_hold_the_caller(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("archon_mesh.tools.execution.GRACE", 0.01)
    release = asyncio.Event()

    @tool(timeout=0.01)
    async def stubborn() -> None:
        """Ignores its cancellation."""
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    async with asyncio.timeout(60):
        result = await engine(stubborn).execute_tool_call("stubborn")
    assert result.status == "timeout"
    (record, *_) = caplog.records
    assert record.getMessage() == "tool stubborn ignores that its call was cancelled; it is abandoned"
    release.set()


async def test_tool_that_cancels_itself_is_an_error_result() -> None:
    @tool
    async def quitter() -> None:
        """Cancels itself."""
        raise asyncio.CancelledError

    result = await engine(quitter).execute_tool_call("quitter")
    assert result.error_message == "tool quitter cancelled its own call"


async def test_tool_without_a_time_limit_is_called_exactly_once() -> None:
    flaky = Flaky(*(Unavailable("x") for _ in range(2 * FAILURES)), timeout=float("inf"), idempotent=True)
    run = engine(flaky.tool, quota=1)
    for number in range(2 * FAILURES):
        result = await run.execute_tool_call("flaky")
        assert (result.metadata["attempts"], flaky.calls) == (1, number + 1)
    assert run.health()["flaky"].breaker == "closed"


async def test_health_counts_calls_failures_timeouts_and_latency() -> None:
    time = VirtualTime()

    @tool
    async def takes() -> None:
        """Takes 2 s."""
        time.now += 2.0

    flaky, slow = Flaky(ValueError("x")), FunctionTool(never, "slow", timeout=0.01)
    run = engine(takes, flaky.tool, slow, time=time)
    assert run.health()["takes"] == ToolHealth()
    for name in ("takes", "takes", "flaky", "flaky", "slow"):
        await run.execute_tool_call(name)
    health = run.health()
    assert (health["takes"].calls, health["takes"].mean_latency_ms, health["takes"].p95_latency_ms) == (2, 2_000, 2_000)
    assert (health["flaky"].calls, health["flaky"].failures, health["flaky"].timeouts) == (2, 1, 0)
    assert (health["slow"].failures, health["slow"].timeouts, health["slow"].slow) == (1, 1, True)


async def test_latency_is_that_of_the_last_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archon_mesh.tools.health.RECENT", 2)
    time, pauses = VirtualTime(), iter([100.0, 1.0, 3.0])

    @tool
    async def takes() -> None:
        """Takes some time."""
        time.now += next(pauses)

    run = engine(takes, time=time)
    for _ in range(3):
        await run.execute_tool_call("takes")
    health = run.health()["takes"]
    assert (health.calls, health.mean_latency_ms, health.p95_latency_ms) == (3, 2_000, 3_000)


async def test_engine_of_a_copied_registry_shares_the_state_of_tools() -> None:
    flaky = Flaky(*(ValueError("x") for _ in range(FAILURES)))
    run = engine(flaky.tool)
    for _ in range(FAILURES):
        await run.for_registry(run.registry.copy()).execute_tool_call("flaky")
    assert run.health()["flaky"].breaker == "open"


async def test_tool_whose_validation_crashes_is_an_error_result(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)

    class Broken(Tool):
        name = "broken"

        def validate_args(self, args: Any) -> str | None:
            raise KeyError("schema")

        async def execute(self, **_: Any) -> None:
            """Is not reached."""

    result = await engine(Broken()).execute_tool_call("broken")
    assert (result.error_message, result.metadata["kind"]) == ("KeyError: 'schema'", "tool.crash")
    assert "tool broken cannot be called" in caplog.text


async def test_alternative_that_is_denied_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    main, other = Flaky(ValueError("mine"), idempotent=True, alternative="other"), Flaky()
    other.tool.name = "other"
    await engine(main.tool, other.tool, permissions={"denied": ["other"]}).execute_tool_call("flaky")
    told = [record.getMessage() for record in caplog.records]
    assert "tool other cannot answer in place of flaky: tool other is denied" in told


async def test_alternative_has_the_state_the_session_and_the_time_of_the_call() -> None:
    seen: list[Any] = []

    async def other(n: int = 0, agent_state: Any = None) -> str:
        seen.append(agent_state)
        return "instead"

    main = Flaky(ValueError("mine"), idempotent=True, alternative="other")
    permissions = {"sessions": {"s": {"denied": ["other"]}}}
    run = engine(main.tool, FunctionTool(other, "other"), permissions=permissions)
    assert (await run.execute_tool_call("flaky", agent_state="mine", session_id="t")).content == "instead"
    assert seen == ["mine"]
    main.errors.append(ValueError("again"))
    assert not (await run.execute_tool_call("flaky", session_id="s")).ok


def test_call_that_is_not_made_has_the_name_and_version_of_its_tool() -> None:
    flaky = Flaky(version="7")
    run = engine(flaky.tool)
    refused = run.refused("flaky", PermissionDenied("not now")).result
    assert (refused.error_message, refused.metadata["tool_name"], refused.metadata["tool_version"]) == (
        "not now",
        "flaky",
        "7",
    )
    unknown = run.refused("gone", NotFound("no such tool")).result
    assert (unknown.metadata["tool_name"], unknown.metadata["tool_version"]) == ("gone", "")
    assert [unknown.metadata[key] for key in ("execution_time_ms", "validation_time_ms", "attempts")] == [0.0, 0.0, 0]
