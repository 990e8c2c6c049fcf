"""What callers ask of a run that is under way, brought to whoever owns it: cancel, pause, resume, answers."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

import jsonschema
import referencing

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
from archon_services.orchestrator.api.validation import MAX_ID, says_something
from archon_services.orchestrator.convert.command import encode_command
from archon_services.orchestrator.dispatch.assign_task import assign_task
from archon_services.orchestrator.journal import Journal, RunRow
from archon_services.orchestrator.ports import Delivery
from archon_services.orchestrator.runs.manager import Runs
from archon_services.orchestrator.runs.receipts import DEPOSED

_log = logging.getLogger(__name__)

TIMEOUT: Final = 10.0


class RunControl:
    """Each returns when it is durable that it will be done. `row_of` raises UnknownRun."""

    def __init__(self, runs: Runs, journal: Journal, now: Callable[[], float]) -> None:
        """`now` in wall seconds."""
        self._runs = runs
        self._journal = journal
        self._now = now

    async def cancel(self, row: RunRow, reason: str) -> None:
        """A run that has ended is left as it is. Raises Unavailable."""
        if not row.ended_at:
            await self._give(row.run_id, inp.Cancel(context.current().identity, reason))

    async def pause(self, row: RunRow) -> None:
        """One that is paused already is left as it is. Raises FailedPrecondition where it has ended, Unavailable."""
        _check_going(row)
        await self._give(row.run_id, inp.Pause(context.current().identity))

    async def resume(self, row: RunRow) -> None:
        """One that isn't paused is left as it is. Raises FailedPrecondition where it has ended, Unavailable."""
        _check_going(row)
        await self._give(row.run_id, inp.Resume(context.current().identity))

    async def respond(self, row: RunRow, request: pb.RespondRequest) -> None:
        """Raises InvalidArgument (an answer that says nothing or doesn't fit), FailedPrecondition (nothing like that is
        asked), RequestIdReused, Unavailable."""
        _check_answer(request)
        digest = _digest(request.parts)
        key = request.request_id or request.input_id
        state = await self._runs.state(row.run_id)
        if key in state.responses:
            _check_same(state, key, digest, request)
            return
        asked = _question(state, request.input_id)
        _check_fits(asked.input_request.schema_json, request.parts)
        _check_size(state, request, self._now())
        payload = run_pb2.InputGiven(parts=request.parts)
        identity = context.current().identity
        await self._give(row.run_id, inp.Respond(request.input_id, identity, request.request_id, digest, payload))
        held = self._runs.held(row.run_id)
        if held is not None and key not in held.responses:
            raise FailedPrecondition(f"question {request.input_id!r} was answered meanwhile, or is asked no more")

    async def _give(self, run_id: str, given: inp.Command) -> None:
        moved = True
        while moved:
            if self._journal.shared and not self._runs.holds(run_id):
                await self._journal.post(run_id, encode_command(given, self._now()))
                return
            durable = _Durable()
            self._runs.deliver(run_id, Delivery(given, durable))
            moved = await durable.wait()


def _check_going(row: RunRow) -> None:
    if row.ended_at:
        raise FailedPrecondition(f"run {row.run_id} has ended", metadata={"run_id": row.run_id})


def _check_answer(request: pb.RespondRequest) -> None:
    violations = [
        FieldViolation(name, f"at most {MAX_ID} characters")
        for name in ("request_id", "input_id")
        if len(getattr(request, name)) > MAX_ID
    ]
    if not any(says_something(part) for part in request.parts):
        violations.append(FieldViolation("parts", "at least one part must not be empty"))
    if violations:
        said = "; ".join(f"{violation.field}: {violation.description}" for violation in violations)
        raise InvalidArgument(said, field_violations=violations)


def _digest(parts: Sequence[common_pb2.Part]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(hashlib.sha256(part.SerializeToString(deterministic=True)).digest())
    return digest.hexdigest()


def _check_same(state: RunState, key: str, digest: str, request: pb.RespondRequest) -> None:
    if state.responses[key] == digest:
        return
    if request.request_id:
        raise RequestIdReused(f"request id {key!r} came before with another answer", metadata={"request_id": key})
    raise FailedPrecondition(f"question {key!r} has been answered")


def _question(state: RunState, input_id: str) -> agent_pb2.TaskResult:
    for task in state.tasks.values():
        asked = task.questions[-1] if task.question == input_id and input_id and state.ending is None else None
        if isinstance(asked, agent_pb2.TaskResult):
            return asked
    open_ones = [task.question for task in state.tasks.values() if task.question]
    known = f"; what is asked: {', '.join(open_ones)}" if open_ones and state.ending is None else ""
    raise FailedPrecondition(f"the run doesn't ask {input_id!r}{known}", metadata={"input_id": input_id})


def _check_size(state: RunState, request: pb.RespondRequest, now: float) -> None:
    """What no frame takes to the agent would fail the run. Raises MessageTooLarge."""
    task = next(task for task in state.tasks.values() if task.question == request.input_id)
    size = assign_task(state, task, now).ByteSize() + request.ByteSize() + MAX_FRAME_OVERHEAD
    if size > MAX_CHECKED_BYTES:
        raise MessageTooLarge(
            f"with this answer the task makes a message of {size:,} bytes, at most {MAX_CHECKED_BYTES:,} are taken; "
            "pass large content by URL",
            metadata={"size": str(size), "limit": str(MAX_CHECKED_BYTES)},
            field_violations=[FieldViolation("parts", "too large")],
        )


def _check_fits(schema_json: str, parts: Sequence[common_pb2.Part]) -> None:
    """An answer is its one JSON value, else its text, which may be JSON. Raises InvalidArgument."""
    if not schema_json:
        return
    try:
        # Nothing is fetched for a schema.
        validator = jsonschema.Draft202012Validator(json.loads(schema_json), registry=referencing.Registry())
        wrong = jsonschema.exceptions.best_match(validator.iter_errors(_value(parts)))
    except Exception as error:  # noqa: BLE001 - the agent's mistake, and no reason not to take the answer
        _log.warning("a question's schema can't be used: %s", error)
        return
    if wrong is not None:
        said = f"the answer doesn't fit: {wrong.message[:500]}"
        raise InvalidArgument(said, field_violations=[FieldViolation("parts", wrong.message[:500])])


def _value(parts: Sequence[common_pb2.Part]) -> Any:
    data = next((part.data_json for part in parts if part.WhichOneof("content") == "data_json"), None)
    text = "".join(part.text for part in parts) if data is None else data
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


class _Durable:
    """A receipt that a caller waits for."""

    def __init__(self) -> None:
        self._done = asyncio.Event()
        self._moved = False

    def accept(self, epoch: int = 0) -> None:
        self._done.set()

    def discard(self, reason: str, epoch: int = 0) -> None:
        self._moved = reason == DEPOSED
        self._done.set()

    async def wait(self) -> bool:
        """True where the run has become somebody else's instead. Raises Unavailable."""
        try:
            async with asyncio.timeout(context.timeout(TIMEOUT)):
                await self._done.wait()
        except TimeoutError:
            raise Unavailable("the run is being moved, try again", retry_delay=1.0) from None
        return self._moved
