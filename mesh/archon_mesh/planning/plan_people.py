"""The questions of a plan in this process to people, and their answers. The run engine decides about both."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

from archon.errors import ArchonError, FailedPrecondition, FieldViolation, InvalidArgument
from archon_mesh.core.people import Decision, DefaultAnswer, QuestionKind, decision_of
from archon_mesh.engine import LocalRun, RunState
from archon_mesh.engine import Task as RunTask
from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.decide.approval import modified_by_plan
from archon_mesh.engine.decide.human_input import answer_refusal, asking_task, question_id
from archon_mesh.engine.plan import Task
from archon_mesh.engine.types import Failure
from archon_mesh.planning.parse import parse_plan
from archon_mesh.planning.plan_question import PlanQuestion
from archon_mesh.planning.records import as_stored
from archon_mesh.tools.people.ask import Desk, PersonAnswer, PersonQuestion
from archon_mesh.tools.result import ToolResult

_log = logging.getLogger(__name__)

CheckPlan = Callable[[Task], Sequence[tuple[str, str]]]
"""Returns the faults of a plan that a person gives: pairs of the step (empty: the whole) and a description."""


class PlanPeople:
    """Lists the open questions of a run, and takes answers to them."""

    def __init__(self, check_plan: CheckPlan) -> None:
        self._check_plan = check_plan
        self._asked: dict[str, Any] = {}
        """The questions of attempts, by id."""
        self._answers: dict[str, Any] = {}

    def observe(self, event: ev.Event) -> None:
        """Notes questions and answers, also from the journal: a later attempt does not ask them again."""
        if isinstance(event, ev.InputRequested):
            self._asked[event.input_id] = event.payload
            self._answers.pop(event.input_id, None)
        elif isinstance(event, ev.InputGiven):
            self._answers[event.input_id] = event.payload

    def known(self, input_id: str, asked: Any) -> Any:
        """Returns the answer to the same question of an earlier attempt; None if there is none."""
        return self._answers.get(input_id) if self._asked.get(input_id) == asked else None

    def questions(self, run: LocalRun) -> list[PlanQuestion]:
        """Returns the open questions, in the order of the tasks."""
        if run.state.ending is not None or run.state.ended:
            return []
        return [self.question(run, task) for task in run.state.tasks.values() if task.asking is not None]

    def question(self, run: LocalRun, task: RunTask) -> PlanQuestion:
        """Returns the open question of a task."""
        asking, held = task.asking, task.held
        assert asking is not None
        left = max(0.0, asking.deadline - run.now) if asking.deadline else None
        asked = PlanQuestion(
            asking.input_id,
            "",
            asking.kind == QuestionKind.APPROVAL,
            task.step_id,
            asking.terms.rule,
            asking.approvers,
            left,
        )
        if held is not None:
            failure = held.failure.message if held.failure is not None else ""
            return replace(asked, text=held.message, plan=held.plan, result=held.payload, failure=failure)
        values = self._asked.get(asking.input_id) or {}
        return replace(asked, text=values["text"], schema=values["schema"], subject=values["subject"])

    def respond(
        self, run: LocalRun, input_id: str, answer: Any, decision: Decision | str | None, identity: str
    ) -> None:
        """Gives the answer to an open question; durable when it returns. Raises FailedPrecondition if it is not open,
        PermissionDenied if the identity may not answer, and InvalidArgument if the answer cannot be used."""
        given = _decision(decision)
        task = asking_task(run.state, input_id)
        if task is None or task.asking is None:
            if run.state.responses.get(input_id) == _digest(answer, given or _said(answer)):
                return
            raise FailedPrecondition(f"question {input_id!r} is not open: it was answered, or nothing waits for it")
        if not given and task.asking.kind == QuestionKind.APPROVAL:
            given = _said(answer)
        plan, result = None, None
        if given is Decision.MODIFY:
            if modified_by_plan(run.state, task):
                plan = self._plan(run.state, answer)
            else:
                result = as_stored(answer, "the answer")
        elif not given:
            _check_schema((self._asked.get(input_id) or {}).get("schema"), answer)
        text = answer if isinstance(answer, str) else "" if plan else json.dumps(as_stored(answer, "the answer"))
        payload = {"text": text, "decision": int(given), "identity": identity}
        response = inp.Respond(input_id, identity, "", _digest(answer, given), payload, given, plan, result)
        if (refusal := answer_refusal(run.state, task, response)) is not None:
            raise error_of(refusal)
        run.give(response)

    def _plan(self, run: RunState, answer: Any) -> Task:
        assert run.submission is not None
        plan = answer if isinstance(answer, Task) else parse_plan(str(answer), "", run.submission.run_id)
        if faults := self._check_plan(plan):
            violations = [FieldViolation(step or "plan", description) for step, description in faults]
            raise InvalidArgument(f"the plan cannot be executed: {faults[0][1]}", field_violations=violations)
        return plan


class AttemptDesk:
    """The way from one attempt to the people of its run, one question after the other. A question that an earlier
    attempt has asked, and that was answered, is not asked again."""

    def __init__(self, run: LocalRun, task: RunTask, people: PlanPeople) -> None:
        self._run = run
        self._task = task
        self._people = people
        self._number = 0
        self._lock = asyncio.Lock()

    async def ask(self, question: PersonQuestion, call: int | None) -> PersonAnswer:
        task = self._task
        async with self._lock:
            self._number += 1
            asked, local_id = _values(question), f"q{self._number}"
            known = self._people.known(question_id(task, local_id), asked)
            if known is None:
                request = inp.AskIn(
                    task.task_id,
                    task.attempt,
                    task.applied + 1,
                    local_id,
                    asked,
                    kind=question.kind,
                    terms=question.terms,
                )
                known = await self._run.ask(request)
        return _answer(known)

    def begin_calls(self, *, resumed: bool) -> dict[int, ToolResult]:
        return {}


class Forwarding:
    """Puts the questions of rules to the person behind a desk, and answers in the run: the plan is part of a work for
    which there is a person already."""

    def __init__(self, desk: Desk, people: PlanPeople) -> None:
        self._desk = desk
        self._people = people
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._cancelled: list[asyncio.Task[None]] = []

    def look(self, run: LocalRun) -> None:
        """Asks the questions that have been opened, and stops asking those that are closed."""
        opened = {question.id: question for question in self._people.questions(run)}
        for input_id in [known for known in self._asking if known not in opened]:
            (asking := self._asking.pop(input_id)).cancel()
            self._cancelled.append(asking)
        for input_id, question in opened.items():
            if input_id not in self._asking:
                self._asking[input_id] = asyncio.create_task(self._ask(run, question), name=f"question {input_id}")

    async def _ask(self, run: LocalRun, question: PlanQuestion) -> None:
        subject: dict[str, Any] = {"step": question.step_id, "rule": question.rule}
        asked = PersonQuestion(question.text, QuestionKind.APPROVAL, None, subject)  # the run has its time
        try:
            given = await self._desk.ask(asked, None)
            identity = given.identity or next(iter(question.approvers), "")
            self._people.respond(run, question.id, given.text, given.decision or None, identity)
        except Exception as error:  # noqa: BLE001 - without an answer the plan cannot go on
            run.stop(error)

    async def close(self) -> None:
        """Cancels the questions that the desk has not answered, and waits until their tasks have ended."""
        asking, self._asking = [*self._asking.values(), *self._cancelled], {}
        for task in asking:
            task.cancel()
        if asking:
            await asyncio.wait(asking)


def error_of(failure: Failure) -> ArchonError:
    """Returns the error that a failure of the run is to its caller."""
    from archon.status import error_class  # it imports gRPC, and most plans do not fail so

    violations = [FieldViolation(field, description) for field, description in failure.violations]
    return error_class(failure.code, failure.reason)(
        failure.message, reason=failure.reason, metadata=dict(failure.metadata), field_violations=violations
    )


def _decision(decision: Decision | str | None) -> Decision:
    if decision is None or isinstance(decision, Decision):
        return decision or Decision.UNSPECIFIED
    try:
        return Decision[decision.upper()]
    except KeyError:
        raise InvalidArgument(f"decision: {decision!r} is not one of approve, reject, modify") from None


def _said(answer: Any) -> Decision:
    return decision_of(answer) if isinstance(answer, str) else Decision.UNSPECIFIED


def _digest(answer: Any, decision: Decision) -> str:
    text = repr(answer) if isinstance(answer, Task) else json.dumps(answer, sort_keys=True, default=repr)
    return sha256(f"{int(decision)} {text}".encode("utf-8", "surrogatepass")).hexdigest()


def _values(question: PersonQuestion) -> dict[str, Any]:
    values = {"text": question.text, "schema": question.schema, "subject": question.subject}
    stored: dict[str, Any] = json.loads(json.dumps(values, default=str))
    return stored


def _answer(given: Any) -> PersonAnswer:
    if isinstance(given, DefaultAnswer):
        return PersonAnswer(given.text, given.decision)
    return PersonAnswer(given["text"], Decision(given["decision"]), given["identity"])


def _check_schema(schema: Any, answer: Any) -> None:
    """Raises InvalidArgument if an answer does not match the schema of its question."""
    if schema is None:
        return
    import jsonschema  # slow to import, and few questions have a schema
    import referencing

    try:
        value = json.loads(answer) if isinstance(answer, str) else answer
    except (ValueError, RecursionError):
        value = answer
    try:
        # The empty registry resolves no references: nothing is fetched.
        validator = jsonschema.Draft202012Validator(schema, registry=referencing.Registry())
        violation = jsonschema.exceptions.best_match(validator.iter_errors(value))
    except Exception as error:  # noqa: BLE001 - whatever the schema of a tool makes the validator raise
        _log.warning("the schema of a question cannot be used: %s", error)
        return
    if violation is not None:
        reason = violation.message[:500]
        raise InvalidArgument(
            f"the answer does not match the question's schema: {reason}",
            field_violations=[FieldViolation("answer", reason)],
        )
