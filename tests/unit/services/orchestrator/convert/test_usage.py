"""The usage of a run is the sum over all attempts of its tasks, however they ended: in GetRun, in each task, in its view,
and in its spans."""

from __future__ import annotations

from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.run_view import RunView
from archon.types import RunEvent
from archon_mesh.core.people import Condition, Decision, InterceptionRule, Trigger
from archon_mesh.engine import RunState, apply
from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.decide.engine import decide
from archon_mesh.engine.fold.apply import fold
from archon_mesh.engine.types import Edge, Failure, Submission, TaskState
from archon_services.orchestrator.convert.event import event_from_proto
from archon_services.orchestrator.convert.run_view import run_to_proto
from archon_services.orchestrator.observability.run_log import RunLog
from tests.fixtures.run_events import event_to_proto

T0 = 1_000.0
BROKEN = Failure("INVALID_ARGUMENT", "INVALID_ARGUMENT", "cannot")
BUSY = Failure("UNAVAILABLE", "UNAVAILABLE", "later", retry_delay=0.1)
LOST = Failure("UNAVAILABLE", "INSTANCE_LOST", "gone")
RULES = (
    InterceptionRule(Trigger.CHECKPOINT, Condition(role="*")),
    InterceptionRule(Trigger.ERROR, Condition(severity_at_least=1)),
)

ATTEMPTS = ("begin", "complete", "complete", "fail", "busy", "ask", "lose", "late", "again", "delegate")
PEOPLE = ("answer", "approve", "modify", "reject", "cancel")
MOVES = st.lists(
    st.tuples(
        st.sampled_from((*ATTEMPTS, *PEOPLE)),
        st.integers(0, 5),
        st.integers(1, 1_000),
    ),
    max_size=40,
)


class Course:
    """A run of two roles in a row; each attempt says what it took, once or more than once."""

    def __init__(self, *, with_rules: bool) -> None:
        rules = RULES if with_rules else ()
        self.run, self.now, self.log = RunState(), T0, list[tuple[ev.Event, float]]()
        self.took: dict[tuple[str, int], int] = {}
        self.payloads: dict[tuple[str, int], inp.ResultIn] = {}
        goal = run_pb2.Submitted()
        submission = Submission(
            "r", "default", "", "", "pipeline", ("a", "b"), (Edge("a", "b"),), 1e6, goal, rules=rules
        )
        self.feed(inp.Submit(submission, "owner", 1))

    def feed(self, given: inp.Input) -> list[ev.Event]:
        events = decide(self.run, given, self.now)
        for event in events:
            apply(self.run, event, self.now)
            self.log.append((event, self.now))
        return events

    def result(self, key: tuple[str, int], state: TaskState, tokens: int, failure: Failure | None = None) -> None:
        payload = agent_pb2.TaskResult(usage=common_pb2.Usage(input_tokens=tokens, output_tokens=1, model_calls=1))
        given = inp.ResultIn(*key, state, payload, failure, publish=True)
        if state is TaskState.INPUT_REQUIRED:
            given = inp.QuestionIn(*key, state, payload, None, input_id="q1")
        self.send(key, given, tokens)

    def send(self, key: tuple[str, int], given: inp.ResultIn, tokens: int) -> None:
        if self.feed(given):
            self.took.setdefault(key, tokens)
            self.payloads.setdefault(key, given)

    def move(self, name: str, number: int, tokens: int) -> None:
        self.now += 1.0
        live = self.run.live_tasks()
        ready = [task for task in self.run.tasks.values() if self.run.ready(task)]
        asking = [task for task in self.run.tasks.values() if task.question]
        if name == "cancel":
            if number == 0:
                self.feed(inp.Cancel("me", ""))
        elif name == "begin" and ready:
            task = ready[number % len(ready)]
            self.now = max(self.now, task.not_before)
            self.feed(inp.SlotFound(task.task_id, "i"))
        elif name in ("answer", "approve", "modify", "reject") and asking:
            task = asking[number % len(asking)]
            decision = {"approve": Decision.APPROVE, "modify": Decision.MODIFY, "reject": Decision.REJECT}.get(
                name, Decision.UNSPECIFIED
            )
            if task.held is None or decision is not Decision.UNSPECIFIED:
                payload = run_pb2.InputGiven(input_id=task.question)
                answer = agent_pb2.TaskResult(output=[common_pb2.Part(text="mine")])
                self.feed(
                    inp.Respond(
                        task.question, "ann", "", "00", payload, decision, None,
                        answer if decision is Decision.MODIFY else None,
                    )
                )  # fmt: skip
        elif name == "late" and (lost := [key for key, took in self.took.items() if not took]):
            key = lost[number % len(lost)]
            del self.took[key]
            self.result(key, TaskState.COMPLETED, tokens)
        elif name == "again" and self.payloads:
            key = list(self.payloads)[number % len(self.payloads)]
            self.send(key, self.payloads[key], 0)
        elif live:
            task = live[number % len(live)]
            key = task.task_id, task.attempt
            if name == "lose":
                self.feed(inp.LostIn(*key, LOST))
                self.took[key] = 0  # unknown, unless its result comes late
            elif name == "delegate":
                self.feed(inp.DelegateIn(*key, f"d{tokens}", task.applied + 1, "c", True, f"{tokens}"))
            elif name in ("complete", "ask"):
                state = TaskState.COMPLETED if name == "complete" else TaskState.INPUT_REQUIRED
                self.result(key, state, tokens)
            elif name in ("fail", "busy"):
                self.result(key, TaskState.FAILED, tokens, BROKEN if name == "fail" else BUSY)

    def protos(self) -> list[run_pb2.RunEvent]:
        protos = []
        for seq, (event, time) in enumerate(self.log, 1):
            stamp = Timestamp()
            stamp.FromNanoseconds(int(time * 1e9))
            protos.append(event_to_proto(event, run_id="r", seq=seq, time=stamp, epoch=1))
        return protos


@given(MOVES, st.booleans())
def test_each_attempt_counts_once(moves: list[tuple[str, int, int]], with_rules: bool) -> None:
    course = Course(with_rules=with_rules)
    for move in moves:
        course.move(*move)
    total = sum(course.took.values())
    calls = sum(tokens > 0 for tokens in course.took.values())
    shown = run_to_proto(course.run)
    assert (shown.usage.input_tokens, shown.usage.model_calls) == (total, calls)
    assert sum(task.usage.input_tokens for task in shown.tasks) == total
    protos = course.protos()
    stored = fold((event_from_proto(proto), time) for proto, (_, time) in zip(protos, course.log, strict=True))
    assert run_to_proto(stored).usage == shown.usage
    view, spans = RunView(), RunLog()
    for proto in protos:
        view.apply(RunEvent(proto))
    for event, time in course.log:
        spans.add(event, time)
    assert (view.usage.input_tokens, view.usage.model_calls) == (total, calls)
    assert sum(task.usage.input_tokens for task in view.tasks.values()) == total
    assert sum(attempt.input_tokens for attempt in spans.attempts) <= total, "a span may have left before a late result"
