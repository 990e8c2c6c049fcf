"""Properties of the engine: its decisions about any inputs in any order satisfy the invariants of a journal."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.wire import timestamp
from archon_mesh.engine import RunState, Timer, open_effects
from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.codec import decode_inputs, encode_inputs
from archon_mesh.engine.decide.engine import decide
from archon_mesh.engine.fold.apply import fold
from archon_mesh.engine.types import (
    NO_LIMIT,
    Amount,
    Budget,
    Edge,
    Failure,
    Requirement,
    Submission,
    Target,
    TaskState,
    quantize,
)
from archon_services.orchestrator.runs.states.load import fold_journal
from tests.fixtures.run_events import event_to_proto
from tests.unit.mesh.engine.checked_step import checked_step

FAILURES = st.builds(
    Failure,
    st.sampled_from(["UNAVAILABLE", "INTERNAL"]),
    st.sampled_from(["INSTANCE_LOST", "INTERNAL", "NO_CAPACITY"]),
    st.text(max_size=5).filter(lambda text: "\ud800" not in text),
)
TASKS = st.sampled_from(["r.1", "r.2", "r.3", "r.4", "r.5", "r.9"])
ATTEMPTS = st.integers(1, 4)
NAMES = st.sampled_from(["d1", "d2", "d3"])
AMOUNTS = st.builds(Amount, st.integers(0, 40), st.integers(0, 40))
BUDGETS = st.just(NO_LIMIT) | st.builds(Budget, st.integers(0, 100), st.integers(0, 100), st.integers(0, 3))
INPUTS: st.SearchStrategy[inp.Input] = st.one_of(
    st.builds(inp.SlotFound, TASKS, st.sampled_from(["i1", "i2"])),
    st.builds(
        inp.ResultIn,
        TASKS,
        ATTEMPTS,
        st.sampled_from(TaskState),
        st.none(),
        st.none() | FAILURES,
        st.booleans(),
        st.integers(0, 2),
        AMOUNTS,
        st.sampled_from(["", "d1", "d2"]),
        st.just(False),
    ),
    st.builds(
        inp.DelegateIn,
        TASKS,
        ATTEMPTS,
        NAMES,
        st.integers(0, 9),
        st.sampled_from(["a", "d", "e", ""]),
        st.booleans(),
        st.sampled_from(["one", "two"]),
        st.none(),
        st.sampled_from(["", "able"]),
        st.sampled_from(["", "key"]),
        st.sampled_from([-1.0, 0.0, 5.0, 60.0]),
        BUDGETS,
        st.booleans(),
        st.integers(0, 2),
        st.sampled_from([(), ("d", "e")]),
    ),
    st.builds(inp.CheckpointIn, TASKS, ATTEMPTS, st.integers(0, 9), st.integers(0, 2)),
    st.builds(inp.Respond, st.sampled_from(["r.1/d1", "r.4/d1", "r.2/d2"]), st.just("me"), NAMES, st.just("00")),
    st.builds(inp.Pause, st.just("me")),
    st.builds(inp.Resume, st.just("me")),
    st.builds(inp.CancelDelegationIn, TASKS, ATTEMPTS, NAMES, st.integers(0, 9)),
    st.builds(inp.BudgetRequestIn, TASKS, ATTEMPTS, NAMES, st.integers(0, 9), AMOUNTS),
    st.builds(inp.UsageIn, TASKS, ATTEMPTS, AMOUNTS),
    st.builds(inp.RejectIn, TASKS, ATTEMPTS, FAILURES, st.floats(0, 3)),
    st.builds(inp.LostIn, TASKS, ATTEMPTS, FAILURES),
    st.builds(inp.RecordsIn, TASKS, ATTEMPTS, st.integers(1, 3)),
    st.builds(inp.PublishedIn, TASKS, st.integers(1, 30), st.integers(1, 3)),
    st.builds(inp.Cancel, st.just("me"), st.text(max_size=3)),
    st.builds(inp.Claim, st.sampled_from(["o1", "o2"]), st.integers(1, 6)),
    st.just(inp.Tick()),
)
EDGES = st.lists(st.sampled_from([("a", "b"), ("a", "c"), ("b", "c")]), unique=True)
STEPS = st.lists(st.tuples(st.floats(0, 20), INPUTS), max_size=40)


def _carried(event: ev.Event) -> ev.Event:
    """With the payload that it has on the wire, which carries a result's usage and a delegation's budget."""
    if isinstance(event, ev.ResultReceived):
        usage = common_pb2.Usage(input_tokens=event.spent.tokens, cost_micro_usd=event.spent.cost)
        return replace(event, payload=agent_pb2.TaskResult(usage=usage))
    if isinstance(event, ev.Delegated):
        tokens, cost, depth = event.budget.tokens, event.budget.cost, event.budget.depth
        budget = common_pb2.Budget(max_tokens=tokens, max_cost_micro_usd=cost, max_depth=depth)
        payload = run_pb2.Delegated(budget=budget, checkpoint=b"x" if event.checkpointed else b"")
        return replace(event, payload=payload)
    return event


@given(EDGES, STEPS, BUDGETS)
def test_durability_1_v6_the_folded_journal_equals_the_state(
    edges: list[tuple[str, str]], steps: list[tuple[float, inp.Input]], budget: Budget
) -> None:
    submission = Submission(
        "r",
        "default",
        "q",
        "s",
        "pipeline",
        ("a", "b", "c"),
        tuple(Edge(a, b) for a, b in edges),
        60.0,
        None,
        (Requirement("b", "x", "1.*"),),
        ("c",),
        (Target("d", "does", True), Target("a")),
        budget,
    )
    run, now = RunState(), 1_000.0
    log: list[tuple[ev.Event, float]] = []
    journal: list[run_pb2.RunEvent] = []
    for wait, decided in [(0.0, inp.Submit(submission, "o1", 1)), *steps]:
        now = quantize(now + wait)
        before = repr(run)
        decide(run, decided, now)
        assert repr(run) == before, "decide changed the state"
        had_ended = run.ended
        events = checked_step(run, decided, now)
        for seq, event in enumerate(events, run.last_seq - len(events) + 1):
            assert not had_ended, "an event after the last"
            had_ended = isinstance(event, ev.RunEnded)
            log.append((event, now))
            journal.append(event_to_proto(_carried(event), run_id="r", seq=seq, time=timestamp(now), epoch=run.epoch))
        assert decode_inputs(encode_inputs([decided], now)) == ([decided], now)
    assert fold(log) == run
    stored = [run_pb2.RunEvent.FromString(event.SerializeToString()) for event in journal]
    assert fold_journal(stored) == run
    assert open_effects(fold_journal(stored)) == open_effects(run)
    if run.ended:
        assert open_effects(run) == set()
        assert all(task.ended and not task.live for task in run.tasks.values())
    children: dict[tuple[str, str], str] = {}
    for event, _ in log:
        if isinstance(event, ev.Delegated) and event.child:
            child = children.setdefault((event.task_id, event.memo_key), event.child)
            assert child == event.child, "a task has one child per memo key"
    reserved = [task.reserved for task in run.tasks.values() if not run.ended]
    if budget.tokens:
        assert sum(amount.tokens for amount in reserved) <= budget.tokens
    if budget.cost:
        assert sum(amount.cost for amount in reserved) <= budget.cost


@given(STEPS)
def test_v7_a_run_ends_when_time_passes_and_people_answer(steps: list[tuple[float, inp.Input]]) -> None:
    submission = Submission("r", "default", "q", "", "pipeline", ("a", "b"), (Edge("a", "b"),), 60.0, None)
    run, now = RunState(), 1_000.0

    def feed(decided: inp.Input) -> None:
        checked_step(run, decided, now)

    feed(inp.Submit(submission, "o1", 1))
    for wait, step in steps:
        now += wait
        feed(step)
    assert run.ended or run.clock_stopped_since or run.ending or Timer(run.deadline) in open_effects(run)
    feed(inp.Resume("me"))
    for question in [task.question for task in run.tasks.values() if task.question]:
        feed(inp.Respond(question, "me", "", "00"))
    for _ in range(10):
        now += 61.0
        feed(inp.Tick())
    assert run.ended
