"""Checks answers to questions before they are delivered: size, schema, and the content that a decision needs."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Sequence
from typing import Any

from archon import context
from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import common_pb2, question_pb2
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.api.orchestrator.v1 import run_pb2
from archon.errors import (
    ArchonError,
    FailedPrecondition,
    FieldViolation,
    InvalidArgument,
    MessageTooLarge,
    RequestIdReused,
)
from archon.frames import MAX_FRAME_OVERHEAD
from archon.wire import MAX_CHECKED_BYTES, text_of
from archon_mesh.core.people import Decision, QuestionKind, decision_of
from archon_mesh.engine import RunState, Task
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.decide.approval import modified_by_plan
from archon_mesh.engine.decide.human_input import answer_refusal, asking_task
from archon_mesh.engine.plan import Task as Plan
from archon_services.orchestrator.api.validation import MAX_ID, has_content
from archon_services.orchestrator.convert.breakpoints import SCHEMA, given_answer
from archon_services.orchestrator.convert.command import modified_result
from archon_services.orchestrator.convert.failures import failure_as_error
from archon_services.orchestrator.convert.people import decision_from_proto
from archon_services.orchestrator.dispatch.assign_task import assign_task
from archon_services.orchestrator.dispatch.step import goal_text

_log = logging.getLogger(__name__)

_WITHOUT_CONTENT = (Decision.APPROVE, Decision.REJECT)
"""Decisions whose answer may be empty: it is only their reason."""


def check_answer(request: pb.RespondRequest) -> None:
    """Raises InvalidArgument if an id is too long, or the answer is empty and no decision."""
    violations = [
        FieldViolation(name, f"at most {MAX_ID} characters")
        for name in ("request_id", "input_id")
        if len(getattr(request, name)) > MAX_ID
    ]
    if decision_from_proto(request.decision) not in _WITHOUT_CONTENT and not any(
        has_content(part) for part in request.parts
    ):
        violations.append(FieldViolation("parts", "at least one part must not be empty"))
    if violations:
        message = "; ".join(f"{violation.field}: {violation.description}" for violation in violations)
        raise InvalidArgument(message, field_violations=violations)


def repeats(state: RunState, request: pb.RespondRequest) -> bool:
    """Returns whether the same answer was accepted before. Raises RequestIdReused if another answer came with the
    request id, FailedPrecondition if the question has another answer."""
    key = request.request_id or request.input_id
    if key not in state.responses:
        return False
    if state.responses[key] == digest_of(request):
        return True
    if request.request_id:
        raise RequestIdReused(f"request id {key!r} was used before with another answer", metadata={"request_id": key})
    raise FailedPrecondition(f"question {key!r} has been answered", metadata={"input_id": key})


def response_to(state: RunState, request: pb.RespondRequest, now: float) -> inp.Respond:
    """Returns the input of an answer to an open question; `now` is in wall seconds.

    Raises FailedPrecondition if the question is not open, PermissionDenied if the caller is not among its approvers,
    InvalidArgument if the answer does not match the schema, or is no decision where one is needed, MessageTooLarge."""
    task = _open_task(state, request.input_id)
    decision = _decision(task, request)
    identity = context.current().identity
    payload = run_pb2.InputGiven(input_id=request.input_id, identity=identity, parts=request.parts)
    payload.decision = question_pb2.Decision.ValueType(decision)
    plan = _plan(state, task, request, decision)
    held = task.held is not None and bool(task.held.breakpoint)
    if held and decision is Decision.MODIFY:
        check_schema(SCHEMA, request.parts)
    is_answer = held and decision is Decision.MODIFY and given_answer(request.parts) is not None
    result = modified_result(request.parts, is_answer=is_answer) if decision is Decision.MODIFY else None
    response = inp.Respond(
        request.input_id, identity, request.request_id, digest_of(request), payload, decision, plan, result, is_answer
    )
    if (refusal := answer_refusal(state, task, response)) is not None:
        raise failure_as_error(refusal)
    question = task.questions[-1]
    if isinstance(question, agent_pb2.TaskResult):
        if decision in (Decision.UNSPECIFIED, Decision.MODIFY):
            check_schema(question.input_request.schema_json, request.parts)
        _check_size(state, task, request, now)
    elif held and decision is Decision.MODIFY:
        _check_size(state, task, request, now)
    return response


def digest_of(request: pb.RespondRequest) -> str:
    """Returns a digest of the answer and its decision."""
    digest = hashlib.sha256()
    for part in request.parts:
        digest.update(hashlib.sha256(part.SerializeToString(deterministic=True)).digest())
    if request.decision:
        digest.update(b"decision %d" % request.decision)
    return digest.hexdigest()


def _open_task(state: RunState, input_id: str) -> Task:
    """The task whose question is open. Raises FailedPrecondition if there is none."""
    task = asking_task(state, input_id)
    if task is not None:
        return task
    open_ids = ", ".join(task.question for task in state.tasks.values() if task.question and state.ending is None)
    hint = f"; open questions: {open_ids}" if open_ids else ""
    raise FailedPrecondition(f"the run has no open question {input_id!r}{hint}", metadata={"input_id": input_id})


def _decision(task: Task, request: pb.RespondRequest) -> Decision:
    """The decision of the request; if it has none, the one that its text says."""
    decision = decision_from_proto(request.decision)
    if decision is Decision.UNSPECIFIED and task.asking is not None and task.asking.kind is QuestionKind.APPROVAL:
        return decision_of(text_of(request.parts))
    return decision


def _plan(state: RunState, task: Task, request: pb.RespondRequest, decision: Decision) -> Plan | None:
    """The plan with which a person replaces the one that waits. Raises InvalidArgument if the answer holds none."""
    if decision is not Decision.MODIFY or not modified_by_plan(state, task):
        return None
    from archon_mesh.planning import parse_plan  # only runs with a plan need it

    text = next((part.data_json for part in request.parts if part.data_json), "") or text_of(request.parts)
    try:
        return parse_plan(text, goal_text(state), "")
    except ArchonError as error:
        violations = [FieldViolation("parts", error.message)]
        raise InvalidArgument(f"parts: {error.message}", field_violations=violations) from None


def _check_size(state: RunState, task: Task, request: pb.RespondRequest, now: float) -> None:
    """Raises MessageTooLarge if the task with this answer does not fit into a frame, which would fail the run."""
    size = assign_task(state, task, now).ByteSize() + request.ByteSize() + MAX_FRAME_OVERHEAD
    if size > MAX_CHECKED_BYTES:
        raise MessageTooLarge(
            f"message too large: the task with this answer has {size:,} bytes, at most {MAX_CHECKED_BYTES:,} are "
            "allowed; pass large content by URL",
            metadata={"size": str(size), "limit": str(MAX_CHECKED_BYTES)},
            field_violations=[FieldViolation("parts", "too large")],
        )


def check_schema(schema_json: str, parts: Sequence[common_pb2.Part]) -> None:
    """Raises InvalidArgument if the answer does not match the question's JSON schema. A schema that cannot be used is
    the agent's mistake and accepts every answer."""
    if not schema_json:
        return
    import jsonschema  # slow to import, and few questions have a schema
    import referencing

    try:
        # The empty registry resolves no references: nothing is fetched.
        schema = json.loads(schema_json)
        validator = jsonschema.Draft202012Validator(schema, registry=referencing.Registry())
        violation = jsonschema.exceptions.best_match(validator.iter_errors(_value(parts)))
    except Exception as error:  # noqa: BLE001 - whatever an agent's schema makes the validator raise
        _log.warning("the schema of a question cannot be used: %s", error)
        return
    if violation is not None:
        is_secret = isinstance(schema, dict) and schema.get("writeOnly") is True
        reason = "the answer must be encrypted" if is_secret else violation.message[:500]
        message = f"the answer does not match the question's schema: {reason}"
        raise InvalidArgument(message, field_violations=[FieldViolation("parts", reason)])


def _value(parts: Sequence[common_pb2.Part]) -> Any:
    """The answer as JSON: its first JSON part, or else its text, decoded if that is JSON."""
    data = next((part.data_json for part in parts if part.WhichOneof("content") == "data_json"), None)
    text = "".join(part.text for part in parts) if data is None else data
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
