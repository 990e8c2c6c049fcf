"""The first step of a recorded run, made again for another run, which begins with the same events."""

from __future__ import annotations

import re
import uuid
from typing import Final

from google.protobuf.message import Message

from archon.api.common.v1 import question_pb2
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.api.orchestrator.v1 import run_pb2
from archon.principal import DEFAULT_TENANT
from archon.wire import timestamp
from archon_mesh.engine.types import TaskState
from archon_services.orchestrator.convert import event_time
from archon_services.orchestrator.convert.event_revision import REVISION
from archon_services.orchestrator.journal import NewRun, Step
from archon_services.replay.recorded_run import Recording

_REST: Final = re.compile(r"(\.\d+(/\S*)?)?")
"""The end of the id of a run, of a task, or of a question."""

OWNER: Final = "recording"
"""The process that created the run: no living one, so that the orchestrator takes the run over."""


def first_step(recording: Recording, run_id: str) -> Step:
    """Returns the step that creates the run `run_id` as the recorded one was created: its submission with everything
    that was resolved at the submit, and all that a fork kept of its source. It belongs to the default tenant."""
    return _step(run_id, _moved_events(recording, run_id), event_time(recording.events[0]))


def begun_now(recording: Recording, run_id: str, now: float) -> Step:
    """Returns the step for a run that begins `now` (wall seconds), and whose questions anyone may answer."""
    events = _moved_events(recording, run_id)
    for event in events:
        event.time.CopyFrom(timestamp(now))
    for rule in events[0].submitted.rules:
        rule.terms.ClearField("approvers")
        if rule.terms.on_timeout == question_pb2.TIMEOUT_POLICY_ESCALATE:
            rule.terms.on_timeout = question_pb2.TIMEOUT_POLICY_ABORT
    return _step(run_id, events, now)


def _moved_events(recording: Recording, run_id: str) -> list[run_pb2.RunEvent]:
    return [_moved(recording.event(seq), recording.run_id, run_id) for seq in recording.decisions[0].seqs]


def _step(run_id: str, events: list[run_pb2.RunEvent], start: float) -> Step:
    submitted = events[0].submitted
    submitted.request_id, submitted.owner, submitted.epoch = uuid.uuid4().hex, OWNER, 1
    submitted.tenant = submitted.identity = submitted.actor = ""
    submitted.traced = False
    submitted.ClearField("trace")
    submitted.ClearField("clock_origin")
    new = NewRun(run_id, DEFAULT_TENANT, submitted.request_id, b"", submitted.session_id, OWNER, REVISION)
    data = pb.WatchRunResponse(events=events).SerializeToString()
    ended = any(event.HasField("run_state") for event in events)
    state = events[-1].run_state.state if ended else int(TaskState.WORKING)
    return Step(run_id, 1, 0, len(events), uuid.uuid4().hex, start, data, b"", state, ended, True, new)


def _moved(event: run_pb2.RunEvent, run_id: str, to: str) -> run_pb2.RunEvent:
    moved = run_pb2.RunEvent()
    moved.CopyFrom(event)
    _replace_ids(moved, run_id, to)
    return moved


def _replace_ids(message: Message, run_id: str, to: str) -> None:
    """Replaces the run's id, and its tasks', which begin with it, in all fields that have one."""
    for field, value in message.ListFields():
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            continue
        if field.message_type is not None:
            for inner in value if field.is_repeated else (value,):
                _replace_ids(inner, run_id, to)
        elif field.type == field.TYPE_STRING:
            if field.is_repeated:
                value[:] = [_replaced(text, run_id, to) for text in value]
            else:
                setattr(message, field.name, _replaced(value, run_id, to))


def _replaced(text: str, run_id: str, to: str) -> str:
    is_id = text.startswith(run_id) and _REST.fullmatch(text, len(run_id))
    return to + text[len(run_id) :] if is_id else text
