"""Commands of callers for a run, passed to its owner: cancel, pause, resume, and answers to questions."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

from archon import context
from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.api.orchestrator.v1 import run_pb2
from archon.errors import (
    FailedPrecondition,
    FieldViolation,
    InvalidArgument,
    MessageTooLarge,
    RequestIdReused,
    Unavailable,
)
from archon.frames import MAX_FRAME_OVERHEAD
from archon.wire import MAX_CHECKED_BYTES
from archon_mesh.core.run import RunState
from archon_mesh.core.run import inputs as inp
from archon_services.orchestrator.api.validation import MAX_ID, has_content
from archon_services.orchestrator.convert.command import encode_command
from archon_services.orchestrator.dispatch.assign_task import assign_task
from archon_services.orchestrator.journal import Journal, RunRow
from archon_services.orchestrator.ports import Delivery
from archon_services.orchestrator.runs.manager import Runs
from archon_services.orchestrator.runs.receipts import DEPOSED

_log = logging.getLogger(__name__)

TIMEOUT: Final = 10.0
"""Seconds that a command waits until it is durable."""


class RunControl:
    """Each method returns when its command is durable: appended to the run, or posted to the owner on another replica.

    `now` returns wall seconds.
    """

    def __init__(self, runs: Runs, journal: Journal, now: Callable[[], float]) -> None:
        self._runs = runs
        self._journal = journal
        self._now = now

    async def cancel(self, row: RunRow, reason: str) -> None:
        """Cancels the run; does nothing if it has ended. Raises Unavailable."""
        if not row.ended_at:
            await self._deliver(row.run_id, inp.Cancel(context.current().identity, reason))

    async def pause(self, row: RunRow) -> None:
        """Pauses the run; does nothing if it is paused. Raises FailedPrecondition if it has ended, ResourceExhausted if
        too many are paused, or Unavailable."""
        _check_not_ended(row)
        self._runs.check_pause(row.run_id)
        await self._deliver(row.run_id, inp.Pause(context.current().identity))

    async def resume(self, row: RunRow) -> None:
        """Resumes the run; does nothing if it is not paused. Raises FailedPrecondition if it has ended, or
        Unavailable."""
        _check_not_ended(row)
        await self._deliver(row.run_id, inp.Resume(context.current().identity))

    async def edit_plan(self, row: RunRow, edit: inp.EditPlan) -> None:
        """Delivers an edit, which the engine may still refuse. Raises FailedPrecondition if the run has ended, or
        Unavailable."""
        _check_not_ended(row)
        await self._deliver(row.run_id, edit)

    async def respond(self, row: RunRow, request: pb.RespondRequest) -> None:
        """Answers an open question. Raises InvalidArgument if the answer is empty or does not match the schema,
        MessageTooLarge, FailedPrecondition if the question is not open, RequestIdReused, or Unavailable."""
        _check_answer(request)
        digest = _digest(request.parts)
        key = request.request_id or request.input_id
        state = await self._runs.state(row.run_id)
        if key in state.responses:
            _check_same(state, key, digest, request)
            return
        question = _open_question(state, request.input_id)
        _check_schema(question.input_request.schema_json, request.parts)
        _check_size(state, request, self._now())
        payload = run_pb2.InputGiven(input_id=request.input_id, parts=request.parts)
        identity = context.current().identity
        await self._deliver(row.run_id, inp.Respond(request.input_id, identity, request.request_id, digest, payload))
        held = self._runs.held(row.run_id)
        if held is not None and key not in held.responses:
            raise FailedPrecondition(f"question {request.input_id!r} was answered meanwhile, or is no longer open")

    async def _deliver(self, run_id: str, command: inp.Command) -> None:
        """Delivers a command to the run here, or posts it to the owner on another replica; again if the run moves."""
        moved = True
        while moved:
            if self._journal.shared and not self._runs.holds(run_id):
                await self._journal.post(run_id, encode_command(command, self._now()))
                return
            receipt = _DurableReceipt()
            self._runs.deliver(run_id, Delivery(command, receipt))
            moved = await receipt.wait()


def _check_not_ended(row: RunRow) -> None:
    if row.ended_at:
        raise FailedPrecondition(f"run {row.run_id} has ended", metadata={"run_id": row.run_id})


def _check_answer(request: pb.RespondRequest) -> None:
    violations = [
        FieldViolation(name, f"at most {MAX_ID} characters")
        for name in ("request_id", "input_id")
        if len(getattr(request, name)) > MAX_ID
    ]
    if not any(has_content(part) for part in request.parts):
        violations.append(FieldViolation("parts", "at least one part must not be empty"))
    if violations:
        message = "; ".join(f"{violation.field}: {violation.description}" for violation in violations)
        raise InvalidArgument(message, field_violations=violations)


def _digest(parts: Sequence[common_pb2.Part]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(hashlib.sha256(part.SerializeToString(deterministic=True)).digest())
    return digest.hexdigest()


def _check_same(state: RunState, key: str, digest: str, request: pb.RespondRequest) -> None:
    if state.responses[key] == digest:
        return
    if request.request_id:
        raise RequestIdReused(f"request id {key!r} was used before with another answer", metadata={"request_id": key})
    raise FailedPrecondition(f"question {key!r} has been answered")


def _open_question(state: RunState, input_id: str) -> agent_pb2.TaskResult:
    """The question of a live run. Raises FailedPrecondition if it is not open."""
    open_tasks = [task for task in state.tasks.values() if task.question and state.ending is None]
    for task in open_tasks:
        question = task.questions[-1]
        if task.question == input_id and isinstance(question, agent_pb2.TaskResult):
            return question
    open_ids = ", ".join(task.question for task in open_tasks)
    hint = f"; open questions: {open_ids}" if open_ids else ""
    raise FailedPrecondition(f"the run has no open question {input_id!r}{hint}", metadata={"input_id": input_id})


def _check_size(state: RunState, request: pb.RespondRequest, now: float) -> None:
    """Raises MessageTooLarge if the task with this answer does not fit into a frame, which would fail the run."""
    task = next(task for task in state.tasks.values() if task.question == request.input_id)
    size = assign_task(state, task, now).ByteSize() + request.ByteSize() + MAX_FRAME_OVERHEAD
    if size > MAX_CHECKED_BYTES:
        raise MessageTooLarge(
            f"message too large: the task with this answer has {size:,} bytes, at most {MAX_CHECKED_BYTES:,} are "
            "allowed; pass large content by URL",
            metadata={"size": str(size), "limit": str(MAX_CHECKED_BYTES)},
            field_violations=[FieldViolation("parts", "too large")],
        )


def _check_schema(schema_json: str, parts: Sequence[common_pb2.Part]) -> None:
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


class _DurableReceipt:
    """The receipt of a command, for a caller that waits until the command is durable."""

    def __init__(self) -> None:
        self._done = asyncio.Event()
        self._moved = False

    def accept(self, epoch: int = 0) -> None:
        self._done.set()

    def discard(self, reason: str, epoch: int = 0) -> None:
        self._moved = reason == DEPOSED
        self._done.set()

    async def wait(self) -> bool:
        """Returns when the command is durable, or True if another replica owns the run now. Raises Unavailable."""
        try:
            async with asyncio.timeout(context.timeout(TIMEOUT)):
                await self._done.wait()
        except TimeoutError:
            raise Unavailable("the run is moving to another replica, try again", retry_delay=1.0) from None
        return self._moved
