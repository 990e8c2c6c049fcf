"""Decides about the stops of a run's clock: questions to people, and pauses."""

from __future__ import annotations

from archon_mesh.core.people import Decision, DefaultAnswer, QuestionKind, TimeoutPolicy, decision_of
from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.decide.approval import MAX_QUESTIONS, decided, modification_refusal
from archon_mesh.engine.decide.task_end import fail
from archon_mesh.engine.decide.termination import ending, then_end
from archon_mesh.engine.state import RunState
from archon_mesh.engine.task import Task
from archon_mesh.engine.types import QUESTION_TIMED_OUT, Failure, TaskState


def question_id(task: Task, input_id: str) -> str:
    """The id of a question in the run: the agent's id is unique only within its task."""
    return f"{task.task_id}/{input_id}"


def ask(run: RunState, task: Task, request: inp.AskIn) -> list[ev.Event]:
    """A question of an attempt that continues. Fails the task if it asks too much, or twice at a time."""
    failure = (
        Failure("FAILED_PRECONDITION", "INVALID_ARGUMENT", "a task can ask one question at a time")
        if task.question
        else refusal(task, request.input_id)
    )
    if failure is not None:
        return fail(run, task, [], failure)
    asked = question_id(task, request.input_id)
    return [
        ev.InputRequested(
            task.task_id,
            task.attempt,
            task.role,
            asked,
            request.payload,
            sequence=request.sequence,
            kind=request.kind,
            terms=request.terms,
        )
    ]


def refusal(task: Task, input_id: str) -> Failure | None:
    """Why the task cannot ask a question with this id of the agent; None if it can."""
    if input_id and len(task.questions) < MAX_QUESTIONS:
        return None
    too_many = f"a task can ask people at most {MAX_QUESTIONS} questions"
    message = too_many if input_id else "a question to a person needs an input_id"
    return Failure("FAILED_PRECONDITION", "INVALID_ARGUMENT", message)


def asking_task(run: RunState, input_id: str) -> Task | None:
    """Returns the task whose question with this id is open; None if there is none, or the run ends."""
    if run.ending is not None:
        return None
    return next((task for task in run.tasks.values() if task.question and task.question == input_id), None)


def respond(run: RunState, response: inp.Respond, now: float) -> list[ev.Event]:
    """Accepts the answer to an open question, with the events that follow; none if the question is not open, or the
    answer is refused."""
    task = asking_task(run, response.input_id)
    if task is None or answer_refusal(run, task, response) is not None:
        return []
    given = ev.InputGiven(
        task.task_id,
        response.input_id,
        response.identity,
        response.request_id,
        response.digest,
        payload=response.payload,
        decision=Decision(response.decision),
    )
    is_answer = response.is_answer and response.decision == Decision.MODIFY
    return decided(run, task, [], given, response.plan, response.result, is_answer=is_answer)


def answer_refusal(run: RunState, task: Task, response: inp.Respond) -> Failure | None:
    """Why an answer to the open question of a task is refused: PERMISSION_DENIED if its identity may not answer,
    INVALID_ARGUMENT if it is no decision where one is needed, or its modification cannot be used. None if it is
    accepted."""
    asking = task.asking
    if asking is None:
        return None
    if asking.approvers and response.identity not in asking.approvers:
        message = f"{response.identity} is no approver of question {asking.input_id!r}"
        return Failure("PERMISSION_DENIED", "PERMISSION_DENIED", message, (("input_id", asking.input_id),))
    if asking.kind == QuestionKind.APPROVAL and response.decision == Decision.UNSPECIFIED:
        return Failure(
            "INVALID_ARGUMENT", "INVALID_ARGUMENT", "the question needs a decision: approve, reject or modify"
        )
    if asking.kind != QuestionKind.APPROVAL and response.decision != Decision.UNSPECIFIED:
        return Failure("INVALID_ARGUMENT", "INVALID_ARGUMENT", "the question needs an answer, not a decision")
    if response.decision == Decision.MODIFY:
        return modification_refusal(run, task, response.plan, is_answer=response.is_answer)
    return None


def question_expired(run: RunState, now: float) -> list[ev.Event]:
    """Applies the policy of the first question whose time has passed. The next one follows with the next tick, since it
    is decided on the state after this one."""
    for task in run.tasks.values():
        asking = task.asking
        if asking is not None and asking.deadline and now >= asking.deadline:
            return _expired(run, task)
    return []


def _expired(run: RunState, task: Task) -> list[ev.Event]:
    asking = task.asking
    assert asking is not None
    terms = asking.terms
    policy = terms.policy_after(asking.level)
    level = asking.level + 1 if policy is TimeoutPolicy.ESCALATE else asking.level
    timed_out = ev.QuestionTimedOut(task.task_id, asking.input_id, terms.rule, policy, level)
    if policy is TimeoutPolicy.ESCALATE:
        return [timed_out]
    if policy is TimeoutPolicy.DEFAULT:
        decision = Decision.UNSPECIFIED
        if asking.kind == QuestionKind.APPROVAL:
            decision = decision_of(terms.default) or Decision.MODIFY
        text = "" if decision in (Decision.APPROVE, Decision.REJECT) else terms.default
        answer = DefaultAnswer(asking.input_id, text, decision)
        given = ev.InputGiven(task.task_id, asking.input_id, "", "", "", answer, decision)
        return decided(run, task, [timed_out], given, None, None)
    reason = f"question {asking.input_id!r} of {task.label} was not answered within {terms.timeout:g} s"
    metadata = (("input_id", asking.input_id), ("limit", f"{terms.timeout:g}"), ("rule", terms.rule))
    failure = Failure("DEADLINE_EXCEEDED", QUESTION_TIMED_OUT, reason, metadata)
    return then_end(run, [timed_out, ending(failure)], set(), TaskState.FAILED, failure)


def pause(run: RunState, request: inp.Pause, now: float) -> list[ev.Event]:
    """Pauses the run; no event if it is paused already, or ending."""
    if run.submission is None or run.paused or run.ending is not None:
        return []
    return [ev.Paused(request.identity)]


def resume(run: RunState, request: inp.Resume, now: float) -> list[ev.Event]:
    """Resumes the run; no event if it is not paused, or ending."""
    return [ev.Resumed(request.identity)] if run.paused and run.ending is None else []
