"""Folds the events of a task into its view."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from archon.api.common.v1 import question_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.failure_kinds import GIVEN_BACK
from archon.run_view import convert
from archon.run_view.attempt import Attempt, Delegation, Outcome
from archon.run_view.question import Question
from archon.run_view.task import EDITED_BY_KEY, LastFailure, TaskView
from archon.types.child_run import ChildRun
from archon.types.enum_name import enum_name
from archon.types.failure import Failure
from archon.types.resolution import Resolution
from archon.types.task_state import TaskState
from archon.types.usage import Usage
from archon.types.verdict import Verdict
from archon.wire import parts_text, to_seconds

TEXT_KEPT: Final = 2_000
"""Characters of a text that are kept, its last ones."""


def apply_to_task(task: TaskView, event: run_pb2.RunEvent, kind: str, now: float) -> None:
    """Folds an event of this kind, which occurred at `now`; one of another kind changes nothing."""
    number = event.task.attempt
    known = (attempt for attempt in reversed(task.attempts) if number in (0, attempt.number))
    attempt = next(known, None) or Attempt(number, "", now)  # before the first dispatch, one that is not kept
    _spend(attempt, event, kind)
    match kind:
        case "task_state":
            _change_state(task, attempt, event.task_state, now)
        case "dispatched":
            _start_attempt(task, event, now)
        case "result":
            _end_with_result(task, event, now)
        case "lost" | "rejected" | "retry":
            _wait_again(task, attempt, event, now)
        case "discarded":
            _discard(task, attempt, now)
        case "input_requested" | "approval_requested":
            _ask(task, attempt, event, now)
        case "question_timed_out" | "input_given":
            _answer(task, attempt, event, now)
        case "delegated":
            _delegate(task, attempt, event.delegated, now)
        case "delegation_cancelled":
            _cancel_delegation(task, attempt, event.delegation_cancelled.delegation_id, now)
        case "budget_reserved" if not event.budget_reserved.HasField("budget"):
            attempt.budget_refused = True
            failure = convert.failure(event.budget_reserved.failure)
            task.last_failure = LastFailure(Outcome.WORKING, failure or Failure())
        case "checkpoint":
            task.checkpoint_bytes = event.checkpoint.size or len(event.checkpoint.data)
        case "published" if event.published.ref.seq == task.result_seq:
            task.version = event.published.ref.version
        case "text_delta" | "thinking_delta" | "tool_event" if attempt is task.attempt:
            _progress(task, event)
    if task.attempt is not None and task.attempt.ended:
        task.tool_calls.clear()


def end_task(task: TaskView, now: float, state: TaskState, failure: Failure | None = None) -> None:
    """Ends the task, and its last attempt and question with it, unless an earlier event has."""
    task.state, task.ended, task.failure = state, now, failure
    if task.attempt is not None:
        _end_attempt(task.attempt, now, Outcome(state), failure)
    _close_question(task, now)


def _change_state(task: TaskView, attempt: Attempt, changed: run_pb2.TaskStateChanged, now: float) -> None:
    failure = convert.failure(changed.failure)
    if changed.stopping:
        task.stopping = failure or Failure()
        if task.question is not None:  # no one has to answer what is not needed any more
            _close_question(task, now)
            task.state = TaskState.WORKING
        if not attempt.ended:
            attempt.stopping = task.stopping
        return
    task.state = TaskState.from_proto(changed.state)
    if failure is not None:
        task.last_failure = LastFailure(Outcome.FAILED, failure)
    if task.final:
        end_task(task, now, task.state, failure)


def _start_attempt(task: TaskView, event: run_pb2.RunEvent, now: float) -> None:
    _close_question(task, now)
    task.state, task.text, task.thinking, task.written = TaskState.WORKING, "", "", 0
    task.tool_calls.clear()
    given = tuple((ref.role, not ref.seq) for ref in event.dispatched.given)  # those of this run are named by events
    task.attempts.append(Attempt(event.task.attempt, event.dispatched.instance_id, now, given=given))


def _end_with_result(task: TaskView, event: run_pb2.RunEvent, now: float) -> None:
    failure = convert.failure(event.result.failure)
    task.state = TaskState.from_proto(event.result.state)
    named = ChildRun.in_metadata(event.result.failure.metadata if failure is not None else event.result.metadata)
    task.child_run = named or task.child_run
    task.last_failure = LastFailure(Outcome.FAILED, failure) if failure is not None else None
    if task.final:
        task.result_seq = event.seq
        task.verdict = Verdict.in_metadata(event.result.metadata)
        decided = event.result.HasField("resolution")
        task.reused = task.state is TaskState.COMPLETED and not event.task.attempt and not decided
        if task.reused:
            task.edited_by = event.result.metadata.get(EDITED_BY_KEY, "")
        if decided:
            task.resolution = Resolution.from_proto(event.result.resolution)
        end_task(task, now, task.state, failure)


def _wait_again(task: TaskView, attempt: Attempt, event: run_pb2.RunEvent, now: float) -> None:
    """Ends an attempt that was lost or rejected, or that failed for now, which alone withdraws its question."""
    outcome, instance_id, failure, retry_time = Outcome.LOST, event.lost.instance_id, event.lost.failure, 0.0
    if event.HasField("retry"):
        if event.retry.HasField("resolution"):
            task.resolution = Resolution.from_proto(event.retry.resolution)
            return  # no attempt has failed
        _close_question(task, now)
        outcome, instance_id, failure = Outcome.RETRIED, "", event.retry.failure
        retry_time = to_seconds(event.retry.not_before)
    elif event.HasField("rejected"):
        instance_id, failure = event.rejected.instance_id, event.rejected.failure
        outcome = Outcome.GIVEN_BACK if GIVEN_BACK in failure.metadata else Outcome.REJECTED
        retry_time = to_seconds(event.rejected.not_before)
    attempt.retry_time = retry_time
    _end_attempt(attempt, now, outcome, convert.failure(failure))
    task.state = TaskState.SUBMITTED if task.question is None else TaskState.INPUT_REQUIRED
    delay = max(0.0, retry_time - now)
    task.last_failure = LastFailure(outcome, convert.failure(failure) or Failure(), instance_id, delay)


def _discard(task: TaskView, attempt: Attempt, now: float) -> None:
    attempt.discarded = True
    if attempt is task.attempt and not attempt.ended:  # it was ordered to stop
        end_task(task, now, TaskState.CANCELED)
        task.failure = task.stopping


def _ask(task: TaskView, attempt: Attempt, event: run_pb2.RunEvent, now: float) -> None:
    _close_question(task, now)
    asked: run_pb2.InputRequested | run_pb2.ApprovalRequested = event.approval_requested
    if event.HasField("input_requested"):
        asked = event.input_requested
    question = Question(asked.input_id, task.role, parts_text(asked.prompt), is_approval=True)
    question.attempt, question.asked = event.task.attempt, now
    if asked.terms.trigger == question_pb2.TRIGGER_BREAKPOINT:
        question.breakpoint = asked.terms.rule.removeprefix("breakpoint ")
    if isinstance(asked, run_pb2.InputRequested):
        question.is_approval = asked.kind == question_pb2.QUESTION_KIND_APPROVAL
        question.schema_json = asked.schema_json
        question.continues = bool(asked.sequence) and attempt is task.attempt
        task.checkpoint_bytes = len(asked.checkpoint) or task.checkpoint_bytes
    task.questions.append(question)
    task.state = TaskState.INPUT_REQUIRED
    if not question.continues and not event.approval_requested.breakpoint:
        _end_attempt(attempt, now, Outcome.ASKED)


def _answer(task: TaskView, attempt: Attempt, event: run_pb2.RunEvent, now: float) -> None:
    """Notes the answer to a question, which may have been asked before, or that none came in time."""
    given, late = event.input_given, event.question_timed_out
    input_id = given.input_id or late.input_id
    known = (question for question in reversed(task.questions) if question.input_id == input_id)
    question = next(known, None) or Question(input_id, task.role)
    if event.HasField("question_timed_out"):
        policy = enum_name(question_pb2.TimeoutPolicy, "TIMEOUT_POLICY_", late.policy)
        question.timed_out, question.rule = policy or "unknown", late.rule
    else:
        question.ended = question.ended or now
        question.answer, question.identity = parts_text(given.parts), given.identity
        question.decision = enum_name(question_pb2.Decision, "DECISION_", given.decision)
        if task.state is TaskState.INPUT_REQUIRED:
            goes_on = attempt is task.attempt and not attempt.ended
            task.state = TaskState.WORKING if goes_on else TaskState.SUBMITTED
    task.notes.append(replace(question))


def _delegate(task: TaskView, attempt: Attempt, source: run_pb2.Delegated, now: float) -> None:
    delegation = Delegation(source.delegation_id, source.child_task_id, source.role, now)
    if source.HasField("failure"):
        delegation.refusal = convert.failure(source.failure) or Failure()
    delegation.repeated = source.child_task_id in task.children
    task.children.update(filter(None, (source.child_task_id,)))
    attempt.delegations.append(delegation)
    if delegation.repeated or delegation.refusal is not None:
        task.notes.append(replace(delegation))


def _cancel_delegation(task: TaskView, attempt: Attempt, delegation_id: str, now: float) -> None:
    known = (delegation for delegation in attempt.delegations if delegation.delegation_id == delegation_id)
    delegation = next(known, None) or Delegation(delegation_id)
    delegation.cancelled = now
    task.notes.append(replace(delegation))


def _progress(task: TaskView, event: run_pb2.RunEvent) -> None:
    """Adds a transient event of the last attempt."""
    if event.HasField("thinking_delta"):
        task.thinking = (task.thinking + event.thinking_delta.text)[-TEXT_KEPT:]
        return
    task.thinking = ""
    if event.HasField("text_delta"):
        task.written = event.text_delta.offset + len(event.text_delta.text.encode())
        task.text = (task.text + event.text_delta.text)[-TEXT_KEPT:]
        return
    task.tool_calls.pop(event.tool_event.call_id, None)
    if convert.is_tool_call(event.tool_event):
        task.tool_calls[event.tool_event.call_id] = event.tool_event.tool_name


def _end_attempt(attempt: Attempt, now: float, outcome: Outcome, failure: Failure | None = None) -> None:
    if not attempt.ended:
        attempt.ended, attempt.outcome, attempt.failure = now, outcome, failure


def _close_question(task: TaskView, now: float) -> None:
    if task.question is not None:
        task.question.ended = now


def _spend(attempt: Attempt, event: run_pb2.RunEvent, kind: str) -> None:
    """Notes an attempt's usage; a result that a person has approved repeats it, one that replaces it has no usage."""
    if kind in ("result", "retry", "input_requested", "discarded", "approval_requested"):
        source = event.approval_requested.result if kind == "approval_requested" else getattr(event, kind)
        if source.HasField("usage") and (attempt.usage is None or source.usage.ListFields()):
            attempt.usage = Usage.from_proto(source.usage)
