"""The engine under whatever may come, in any order: what must hold of every journal holds of its decisions."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from archon.api.orchestrator.v1 import run_pb2
from archon_mesh.core.run import RunState, decide, fold, open_effects
from archon_mesh.core.run import events as ev
from archon_mesh.core.run import inputs as inp
from archon_mesh.core.run.codec import decode_inputs, encode_inputs
from archon_mesh.core.run.common import Edge, Failure, Submission, TaskState, Want, quantize
from archon_services.orchestrator.convert import event_to_proto, fold_journal
from archon_services.orchestrator.convert.write import timestamp

FAILURES = st.builds(
    Failure,
    st.sampled_from(["UNAVAILABLE", "INTERNAL"]),
    st.sampled_from(["INSTANCE_LOST", "INTERNAL", "NO_CAPACITY"]),
    st.text(max_size=5).filter(lambda text: "\ud800" not in text),
)
TASKS = st.sampled_from(["r.1", "r.2", "r.3", "r.9"])
ATTEMPTS = st.integers(1, 4)
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
    ),
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


@settings(max_examples=300, deadline=None)
@given(EDGES, STEPS)
def test_durability_1_and_v6_whatever_comes_the_folded_journal_is_the_live_state_and_opens_the_same_effects(
    edges: list[tuple[str, str]], steps: list[tuple[float, inp.Input]]
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
        (Want("b", "x", "1.*"),),
        ("c",),
    )
    run, now = RunState(), 1_000.0
    log: list[tuple[ev.Event, float]] = []
    journal: list[run_pb2.RunEvent] = []
    for wait, one in [(0.0, inp.Submit(submission, "o1", 1)), *steps]:
        now = quantize(now + wait)
        before = repr(run)
        events = decide(run, one, now)
        assert repr(run) == before, "decide changed the state"
        for event in events:
            assert not run.ended, "an event after the last"
            run.apply(event, now)
            log.append((event, now))
            journal.append(event_to_proto(event, run_id="r", seq=run.last_seq, time=timestamp(now), epoch=run.epoch))
        again, at = decode_inputs(encode_inputs([one], now))
        assert (again, at) == ([one], now)
    assert fold(log) == run
    stored = [run_pb2.RunEvent.FromString(event.SerializeToString()) for event in journal]
    assert fold_journal(stored) == run
    assert open_effects(fold_journal(stored)) == open_effects(run)
    if run.ended:
        assert open_effects(run) == set()
        assert all(task.ended and not task.live for task in run.tasks.values())


@settings(max_examples=200, deadline=None)
@given(STEPS)
def test_v7_a_run_always_ends_when_time_goes_on_and_results_come(steps: list[tuple[float, inp.Input]]) -> None:
    submission = Submission("r", "default", "q", "", "pipeline", ("a", "b"), (Edge("a", "b"),), 60.0, None)
    run, now = RunState(), 1_000.0

    def feed(one: inp.Input) -> None:
        for event in decide(run, one, now):
            run.apply(event, now)

    feed(inp.Submit(submission, "o1", 1))
    for wait, one in steps:
        now += wait
        feed(one)
    for _ in range(10):
        now += 61.0
        feed(inp.Tick())
    assert run.ended
