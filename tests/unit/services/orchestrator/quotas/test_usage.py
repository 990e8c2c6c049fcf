"""The use of quotas: which runs and streams are refused, and what frees their place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from opentelemetry.sdk.metrics import MeterProvider

from archon.api.orchestrator.v1 import run_pb2
from archon.errors import QuotaExceeded
from archon.telemetry.metrics import QUOTA_USE, Metric, Recorder, Source
from archon_mesh.core.people import QuestionTerms
from archon_mesh.engine import RunState
from archon_mesh.engine import events as ev
from archon_mesh.engine.types import Amount, Failure, Submission, TaskState
from archon_services.common.quotas import DAY, Quota, Quotas
from archon_services.orchestrator import gauges
from archon_services.orchestrator.journal import MemoryJournal, NewRun, Step
from archon_services.orchestrator.ports import Transport
from archon_services.orchestrator.quotas import Holder, QuotaUsage
from archon_services.orchestrator.quotas.spending import spent_by
from archon_services.orchestrator.quotas.usage import PAUSED_AGE
from archon_services.orchestrator.runs import manager
from archon_services.orchestrator.runs.clock.clocks import JournalClock
from archon_services.orchestrator.runs.manager import Runs

NOON = 20_000 * DAY + DAY / 2


class World:
    """The use of quotas of the tenant `acme` and the identity `ann`, with clocks that a test moves."""

    def __init__(self, tenant: Quota | None = None, identity: Quota | None = None) -> None:
        self.wall, self.monotonic = NOON, 1_000.0
        self.paused: list[str] = []
        quotas = Quotas({"acme": tenant or Quota()}, {"ann": identity or Quota()})
        self.usage = QuotaUsage(quotas, lambda: self.wall, lambda: self.monotonic, lambda: self.paused)

    def begin(self, run_id: str, identity: str = "ann", tenant: str = "acme") -> None:
        self.usage.begin_run(submission(run_id, identity, tenant))

    def refused(self, identity: str = "ann") -> QuotaExceeded:
        with pytest.raises(QuotaExceeded) as caught:
            self.begin("refused", identity)
        return caught.value

    def store(
        self, run_id: str, *events: ev.Event, identity: str = "ann", creates: bool = False, size: int = 0
    ) -> None:
        new = NewRun(run_id, "acme", "", b"", "", "me") if creates else None
        step = Step(run_id, 1, 0, 1, "b", self.wall, b"x" * size, b"", 1, new=new)
        self.usage.stored(step, events, RunState(submission=submission(run_id, identity)))


def submission(run_id: str, identity: str, tenant: str = "acme") -> Submission:
    goal = run_pb2.Submitted(identity="" if identity == "anonymous" else identity)
    return Submission(run_id, tenant, "", "", "agent", ("r",), (), 60.0, goal)


def result(spent: Amount, **fields: Any) -> ev.ResultReceived:
    return ev.ResultReceived(
        "t", **{"attempt": 1, "role": "r", "state": TaskState.COMPLETED, **fields}, payload=None, spent=spent
    )


def test_a_run_above_the_number_is_refused_until_one_ends() -> None:
    world = World(Quota(runs=2))
    world.begin("a")
    world.begin("b", "bob")
    error = world.refused()
    assert error.metadata == {"quota": "runs", "limit": "2", "used": "2", "tenant": "acme"}
    assert (error.reason, error.code, error.retry_delay) == ("QUOTA_EXCEEDED", "RESOURCE_EXHAUSTED", 1.0)
    world.begin("other", tenant="blue")
    for _ in range(2):
        world.usage.end_run("a")
    world.begin("c")
    world.refused()


def test_a_run_that_is_paused_does_not_count() -> None:
    world = World(Quota(runs=1))
    world.begin("a")
    world.refused()
    world.paused = ["a"]
    world.monotonic += PAUSED_AGE
    world.begin("b")
    world.refused()
    assert world.usage.numbers(Holder("acme"))[0].used == 1


def test_runs_that_were_taken_over_count_and_are_never_refused() -> None:
    world = World(Quota(runs=1, runs_per_day=1))
    for run_id in ("a", "b", "b"):
        world.usage.take_run(submission(run_id, "ann"))
    assert world.usage.numbers(Holder("acme"))[0].used == 2
    world.usage.end_run("a")
    world.usage.end_run("b")
    world.begin("c")


def test_runs_of_a_day_are_reserved_while_they_are_created() -> None:
    world = World(Quota(runs_per_day=2))
    world.begin("a")
    world.begin("b")
    world.refused()
    world.usage.end_run("b")  # it was not created: the same request had come before
    world.begin("c")
    world.store("a", creates=True)
    world.store("c", creates=True)
    world.usage.end_run("a")
    world.usage.end_run("c")
    error = world.refused()
    assert error.metadata["quota"] == "runs_per_day" and error.metadata["used"] == "2", "refused ones do not count"
    assert error.retry_delay == pytest.approx(DAY / 2)
    world.wall += DAY / 2
    world.begin("d")


@pytest.mark.parametrize(
    ("quota", "name", "limit"),
    [
        (Quota(bytes_per_day=1_000), "bytes_per_day", "1000"),
        (Quota(tokens_per_day=100), "tokens_per_day", "100"),
        (Quota(micro_usd_per_day=250_000), "usd_per_day", "0.25"),
    ],
)
@pytest.mark.parametrize("holder", ["tenant", "identity"])
def test_a_run_after_the_amount_of_the_day_is_refused(quota: Quota, name: str, limit: str, holder: str) -> None:
    world = World(quota, None) if holder == "tenant" else World(None, quota)
    world.begin("a")
    world.store("a", result(Amount(99, 249_999)), creates=True, size=999)
    world.begin("b")
    world.store("a", result(Amount(1, 1)), size=1)
    error = world.refused()
    assert (error.metadata["quota"], error.metadata["limit"]) == (name, limit)
    assert ("identity" in error.metadata) == (holder == "identity")
    if holder == "identity":
        world.begin("c", "bob")
    world.wall += DAY
    world.begin("d")


def test_callers_without_an_identity_are_one_identity() -> None:
    usage = QuotaUsage(Quotas({}, {"*": Quota(runs=1)}), lambda: NOON, lambda: 0.0)
    usage.begin_run(submission("a", "anonymous"))
    with pytest.raises(QuotaExceeded, match="identity anonymous"):
        usage.begin_run(submission("b", "anonymous"))
    usage.begin_run(submission("c", "ann"))


def test_a_limit_of_zero_refuses_everything() -> None:
    assert World(Quota(runs=0)).refused().metadata["limit"] == "0"
    assert World(Quota(tokens_per_day=0)).refused().metadata["quota"] == "tokens_per_day"
    with pytest.raises(QuotaExceeded), World(Quota(streams=0)).usage.stream("acme", "ann"):
        pass


def test_a_stream_above_the_number_is_refused_until_one_ends() -> None:
    usage = World(Quota(streams=2), Quota(streams=1)).usage
    with usage.stream("acme", "ann"):
        with pytest.raises(QuotaExceeded, match="identity ann"), usage.stream("acme", "ann"):
            pass
        with usage.stream("acme", "bob"):
            with pytest.raises(QuotaExceeded, match="tenant acme"), usage.stream("acme", "bob"):
                pass
            with usage.stream("blue", "bob"):
                pass
        with usage.stream("acme", "bob"):
            pass
    with usage.stream("acme", "ann"):
        pass
    assert usage._held == {}


def test_the_parts_used_are_told_of_limits_alone() -> None:
    world = World(Quota(runs=4, streams=0))
    world.begin("a")
    world.begin("b", tenant="blue")
    assert sorted(world.usage.shares()) == [("acme", "runs", 0.25), ("acme", "streams", 1.0)]
    assert world.usage.weight("blue") == 1.0


def test_the_spending_of_each_attempt_counts_once() -> None:
    spent, failure = Amount(10, 100), Failure("INTERNAL", "INTERNAL", "bad")
    terms = QuestionTerms("rule")
    asked = ev.ApprovalRequested("t", 1, "r", "t/approval-1", terms, None, spent=spent)
    given = ev.InputGiven("t", "t/approval-1", "ann", "q", "d", None)
    answered = ev.InputGiven("t", "colour", "ann", "q", "d", None)
    assert spent_by([asked]) == spent
    assert spent_by([given, result(spent)]) == Amount(), "it was counted when the attempt ended"
    assert spent_by([answered, result(spent)]) == spent
    assert spent_by([ev.Retried("t", 1, "r", failure, 1.0, spent), result(spent)]) == spent + spent
    assert spent_by([ev.InputRequested("t", 1, "r", "q", None, spent)]) == spent
    assert spent_by([ev.InputRequested("t", 1, "r", "q", None, spent, sequence=3)]) == Amount(), "the attempt goes on"
    assert spent_by([result(spent, attempt=0)]) == Amount(), "taken over from another run"


async def test_the_scheduler_and_the_gauge_have_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    journal = MemoryJournal()
    quotas = Quotas({"acme": Quota(runs=4, weight=2.5)})
    runs = Runs(owner="me", clock=JournalClock(journal), journal=journal, new_id=lambda: "r", quotas=quotas)
    weights: list[float] = []

    def created(journal: object, commits: object, weight: Callable[[str], float], seal: object) -> object:
        weights.extend(map(weight, ("acme", "blue")))
        return None

    monkeypatch.setattr(manager, "Scheduler", created)
    runs.start(cast(Transport, None))
    assert weights == [2.5, 1.0]
    assert runs.quotas is not None
    runs.quotas.begin_run(submission("a", "ann"))
    recorder = Recorder(MeterProvider().get_meter("quotas"))
    parts = dict[Metric, Source]()
    monkeypatch.setattr(recorder, "observe", lambda metric, source: parts.setdefault(metric, source))
    absent = cast(Any, None)
    gauges.observe(recorder, runs=runs, pool=absent, watch=absent, ownership=absent, outbox=None, clock=absent)
    assert list(parts[QUOTA_USE]()) == [(("acme", "runs"), 0.25)]
