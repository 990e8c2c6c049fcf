"""Compares a run that was run again with its recording: task by task, without the values that no two runs share.

These are: times, ids of processes and instances, epochs, versions of memory and of
conversations, identities, traces, and how an attempt was lost.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from google.protobuf import json_format

from archon.api.common.v1 import common_pb2, failure_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon_services.replay.naming import Names
from archon_services.replay.recorded_run import MAX_FIELDS, NOTHING, Difference, FieldDifference, shown

_DROPPED: Final = frozenset({"claimed", "recorded", "published", "lost", "rejected"})
_SEQUENCED: Final = (
    "delegated", "delegation_cancelled", "budget_reserved", "checkpoint", "item_published", "message_sent",
    "subscribed", "input_requested",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class PlainEvent:
    """An event without the values that no two runs share. `links` are the names of the events that it refers to."""

    seq: int
    kind: str
    message: run_pb2.RunEvent
    links: tuple[str, ...] = ()

    def same(self, other: PlainEvent) -> bool:
        """Whether two events are the same, bit for bit."""
        return self.links == other.links and _bits(self.message) == _bits(other.message)


@dataclass(slots=True)
class Comparison:
    """The result: the number of events and answers that are the same, and the differences, the earliest of each task in
    the order of the recording. `answers` counts the results and items that were given."""

    events: int = 0
    tasks: int = 0
    answers: int = 0
    differences: list[tuple[str, Difference]] = field(default_factory=list)

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        return not self.differences


def compare(
    recorded: Sequence[run_pb2.RunEvent],
    again: Sequence[run_pb2.RunEvent],
    *,
    live: Collection[str] = (),
    complete: bool = True,
) -> Comparison:
    """Compares the events of two runs. Roles that were `live` may use more or less than they did, and end an attempt
    that was stopped in time or too late. Unless `complete`, the recording was played up to a point, and later events of
    the second run do not count."""
    before, after = _by_task(recorded, live=bool(live)), _by_task(again, live=bool(live))
    result = Comparison(tasks=len(before) - ("" in before))
    for task, events in before.items():
        others = after.pop(task, [])
        if not complete:
            others = others[: len(events)]
        for position in range(max(len(events), len(others))):
            one = events[position] if position < len(events) else None
            other = others[position] if position < len(others) else None
            for each in (one, other):
                if each is not None and each.kind == "result" and each.message.result.role in live:
                    each.message.result.ClearField("usage")
            if one is not None and other is not None and one.same(other):
                result.events += 1
                result.answers += one.kind in ("result", "item_published")
                continue
            result.differences.append((task, _difference(one, other)))
            break
    if complete:
        result.differences += [(task, _difference(None, events[0])) for task, events in after.items()]
    result.differences.sort(key=lambda found: found[1].seq or 2**62)
    return result


def _by_task(events: Iterable[run_pb2.RunEvent], *, live: bool) -> dict[str, list[PlainEvent]]:
    names = Names()
    tasks: defaultdict[str, list[PlainEvent]] = defaultdict(list)
    for event in events:
        task = names.add(event)
        kind = event.WhichOneof("event") or ""
        if kind in _DROPPED or (live and kind == "discarded"):
            continue
        if live and kind == "result" and _was_stopped(event.result):
            continue  # an attempt that was stopped ended in time, or too late
        tasks[task].append(_plain(event, names, task, kind))
    return dict(tasks)


def _was_stopped(result: run_pb2.ResultReceived) -> bool:
    return result.state == common_pb2.TASK_STATE_CANCELED and not result.output


def _plain(event: run_pb2.RunEvent, names: Names, task: str, kind: str) -> PlainEvent:
    message = run_pb2.RunEvent()
    message.CopyFrom(event)
    message.run_id, message.seq = "", 0
    message.ClearField("time")
    if message.HasField("task"):
        message.task.task_id, message.task.run_id, message.task.epoch = task, "", 0
    body: Any = getattr(message, kind)
    if kind in _SEQUENCED:
        body.sequence = 0
    links = tuple(_CLEAN[kind](body, names)) if kind in _CLEAN else ()
    if hasattr(body, "failure") and body.HasField("failure"):
        _clean_failure(body.failure, names)
    return PlainEvent(event.seq, kind, message, links)


def _submitted(body: run_pb2.Submitted, names: Names) -> Iterator[str]:
    kept = run_pb2.Submitted(goal=body.goal, roles=body.roles, strategy=body.strategy, metadata=body.metadata)
    kept.check_alignment, kept.without_planner = body.check_alignment, body.without_planner
    kept.session_id = body.session_id
    if body.HasField("budget"):
        kept.budget.CopyFrom(body.budget)
    for edge in body.edges:
        kept.edges.add(upstream=edge.upstream, downstream=edge.downstream, policy=edge.policy)
    body.CopyFrom(kept)
    yield from ()


def _question_timed_out(body: run_pb2.QuestionTimedOut, names: Names) -> Iterator[str]:
    body.input_id = names.input_id(body.input_id)
    yield from ()


def _run_state(body: run_pb2.RunStateChanged, names: Names) -> Iterator[str]:
    yield from (names.events[seq] for seq in body.answer_seqs)
    body.ClearField("answer_seqs")


def _task_state(body: run_pb2.TaskStateChanged, names: Names) -> Iterator[str]:
    yield names.tasks.get(body.parent_task_id, "")
    yield from (names.tasks.get(task_id, task_id) for task_id in body.predecessors)
    body.parent_task_id = ""
    body.ClearField("predecessors")


def _dispatched(body: run_pb2.Dispatched, names: Names) -> Iterator[str]:
    for ref in body.given:
        yield names.ref(ref)
    for name in (
        "given",
        "placement",
        "instance_id",
        "conversation_version",
        "expected_seconds",
        "ignores_breakpoints",
    ):
        body.ClearField(name)


def _delegated(body: run_pb2.Delegated, names: Names) -> Iterator[str]:
    yield names.tasks.get(body.child_task_id, "")
    body.child_task_id = ""
    body.ClearField("trace")


def _result(body: run_pb2.ResultReceived, names: Names) -> Iterator[str]:
    for ref in body.used:
        yield names.ref(ref)
    yield names.events.get(body.messages_read, "")
    body.messages_read = 0
    body.ClearField("used")


def _input_requested(body: run_pb2.InputRequested, names: Names) -> Iterator[str]:
    body.input_id = names.input_id(body.input_id)
    body.terms.ClearField("approvers")
    body.terms.ClearField("on_timeout")
    yield from ()


def _approval_requested(body: run_pb2.ApprovalRequested, names: Names) -> Iterator[str]:
    body.input_id = names.input_id(body.input_id)
    body.terms.ClearField("approvers")
    body.terms.ClearField("on_timeout")
    yield from _result(body.result, names)


def _input_given(body: run_pb2.InputGiven, names: Names) -> Iterator[str]:
    body.input_id = names.input_id(body.input_id)
    body.identity = body.request_id = ""
    body.payload_hash = b""
    yield from ()


def _without_identity(body: Any, names: Names) -> Iterator[str]:
    body.identity = ""
    yield from ()


def _cancel_requested(body: run_pb2.CancelRequested, names: Names) -> Iterator[str]:
    body.identity, body.reason = "", _clean_text(body.reason, names)
    yield from ()


def _planned(body: run_pb2.Planned, names: Names) -> Iterator[str]:
    body.identity = body.edit_id = ""
    body.plan.change_seq = 0
    for step in body.plan.steps:
        step.task_id = names.tasks.get(step.task_id, "")
    yield from ()


def _message_sent(body: run_pb2.MessageSent, names: Names) -> Iterator[str]:
    yield names.events.get(body.first_seq, "")
    body.first_seq = body.message.seq = 0
    body.message.ClearField("send_time")
    body.message.sender_task_id = names.tasks.get(body.message.sender_task_id, "")
    body.message.receiver_id = names.tasks.get(body.message.receiver_id, body.message.receiver_id)
    body.message.correlation_id = names.tasks.get(body.message.correlation_id, body.message.correlation_id)


_CLEAN: Final[dict[str, Any]] = {
    "submitted": _submitted,
    "run_state": _run_state,
    "task_state": _task_state,
    "dispatched": _dispatched,
    "delegated": _delegated,
    "result": _result,
    "input_requested": _input_requested,
    "approval_requested": _approval_requested,
    "input_given": _input_given,
    "question_timed_out": _question_timed_out,
    "paused": _without_identity,
    "resumed": _without_identity,
    "breakpoints_set": _without_identity,
    "cancel_requested": _cancel_requested,
    "planned": _planned,
    "message_sent": _message_sent,
    "retry": lambda body, names: body.ClearField("not_before") or (),
}


def _clean_text(text: str, names: Names) -> str:
    """Returns a text with names in place of ids, and without the identities of those who answered."""
    if names.run_id in text:
        for task_id, name in sorted(names.tasks.items(), reverse=True):
            text = text.replace(task_id, name)
        text = text.replace(names.run_id, "RUN")
    for identity in names.people:
        text = text.replace(f"by {identity}", "by a person")
    return text


def _clean_failure(failure: failure_pb2.Failure, names: Names) -> None:
    """Leaves code, reason and text."""
    text = _clean_text(failure.message, names)
    failure.CopyFrom(failure_pb2.Failure(code=failure.code, reason=failure.reason, message=text, retry=failure.retry))


def _difference(one: PlainEvent | None, other: PlainEvent | None) -> Difference:
    if one is None:
        assert other is not None
        return Difference(0, NOTHING, other.kind, "the recording has no such event")
    if other is None:
        return Difference(one.seq, one.kind, NOTHING, "it did not come again")
    if one.kind != other.kind:
        return Difference(one.seq, one.kind, other.kind, "it is another event")
    found = tuple(_fields(_flat(one), _flat(other)))[:MAX_FIELDS]
    named = ", ".join(difference.path for difference in found)
    return Difference(one.seq, one.kind, other.kind, f"it has another {named}", fields=found)


def _fields(one: dict[str, Any], other: dict[str, Any]) -> Iterator[FieldDifference]:
    for path in sorted({*one, *other}):
        if one.get(path) != other.get(path):
            yield FieldDifference(path, _value(one, path), _value(other, path))


def _value(values: dict[str, Any], path: str) -> str:
    return shown(values[path]) if path in values else NOTHING


def _flat(event: PlainEvent) -> dict[str, Any]:
    values = json_format.MessageToDict(event.message, preserving_proto_field_name=True)
    found: dict[str, Any] = {}

    def walk(path: str, value: Any) -> None:
        if isinstance(value, dict):
            for name, inner in value.items():
                walk(f"{path}.{name}" if path else name, inner)
        elif isinstance(value, list):
            for index, inner in enumerate(value):
                walk(f"{path}[{index}]", inner)
        else:
            found[path] = value

    walk("", values.pop(event.kind, {}))
    walk("task", values.get("task", {}))
    for index, link in enumerate(event.links):
        found[f"from[{index}]"] = link
    return found


def _bits(message: run_pb2.RunEvent) -> bytes:
    return message.SerializeToString(deterministic=True)
