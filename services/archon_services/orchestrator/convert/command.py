"""A command as it waits in the journal for the owner of its run: the input, and its content apart from it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.errors import DataLoss
from archon_mesh.core.people import Decision
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.codec import decode_inputs, encode_inputs
from archon_services.orchestrator.convert import from_journal
from archon_services.orchestrator.convert.breakpoints import given_answer


def result_from_answer(parts: Iterable[common_pb2.Part]) -> agent_pb2.TaskResult:
    """Returns the result with which a person replaces an attempt's."""
    return agent_pb2.TaskResult(state=common_pb2.TASK_STATE_COMPLETED, output=parts)


def modified_result(parts: Sequence[common_pb2.Part], *, is_answer: bool) -> agent_pb2.TaskResult:
    """Returns the result that a modification gives: its parts; with `is_answer` the answer in them, at a
    breakpoint."""
    return result_from_answer([common_pb2.Part(text=given_answer(parts) or "")] if is_answer else parts)


def encode_command(given: inp.Command, now: float) -> bytes:
    """`now` in wall seconds."""
    payload = b""
    if isinstance(given, inp.Respond) and isinstance(given.payload, run_pb2.InputGiven):
        payload = given.payload.SerializeToString()
    return encode_inputs([given], now) + b"\n" + payload  # JSON on one line has no newline


def decode_command(data: bytes, run_id: str) -> inp.Input:
    """Returns the argument of `encode_command`. Raises DataLoss."""
    try:
        head, _, payload = data.partition(b"\n")
        (given,), _ = decode_inputs(head)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise DataLoss(f"a command for run {run_id} cannot be read", metadata={"run_id": run_id}) from error
    if isinstance(given, inp.Respond):
        answer = from_journal(run_pb2.InputGiven, payload, run_id)
        result = modified_result(answer.parts, is_answer=given.is_answer) if given.decision == Decision.MODIFY else None
        return replace(given, payload=answer, result=result)
    return given
