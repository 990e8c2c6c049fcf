"""The submission of a task's run: once for all attempts at the task."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from archon.agent import TaskContext
from archon.client import Client
from archon.errors import (
    ArchonError,
    DeadlineExceeded,
    FailedPrecondition,
    RequestIdReused,
    RunExpired,
    UnknownCapability,
    UnknownRole,
)
from archon.failure_kinds import RetryAdvice
from archon.federation.content import goal_of
from archon.federation.other_mesh import OtherMesh, RunChoice
from archon.federation.reach import reach
from archon.submission import RunOptions
from archon.types.budget import Budget

MAX_REQUEST_ID: Final = 256
MAX_TIMEOUT: Final = 24 * 3600.0
LEAST_TIMEOUT: Final = 0.001


@dataclass(frozen=True, slots=True)
class Submission:
    """How the run of a task is submitted: how the other mesh executes it, and its metadata."""

    choice: RunChoice
    metadata: Mapping[str, str]
    request_id: str


def request_id_of(task: TaskContext, own: str) -> str:
    """Returns the id of the request for the run of a task of the mesh `own`: the same for all attempts, unless an
    answer was refused, which needs another run."""
    key = task.idempotency_key or f"{task.run_id}/{task.task_id}"
    refused = f"/{hashlib.sha256(task.refusal.encode()).hexdigest()[:16]}" if task.refusal else ""
    text = f"mesh:{own}/{key}{refused}"
    return text if len(text) <= MAX_REQUEST_ID else f"mesh:{hashlib.sha256(text.encode()).hexdigest()}"


async def run_of(task: TaskContext, mesh: OtherMesh, submission: Submission, patience: float) -> str:
    """Returns the id of the run of a task: of an earlier attempt, or of a new one, which is durable.

    Raises Unavailable if the other mesh does not answer for `patience` seconds, DeadlineExceeded if the task has no
    time left, and the errors with which the other mesh refuses the run. One without an agent that can take part may
    have it later: these errors advise a retry.
    """
    if run_id := _checkpointed(task, submission.request_id):
        return run_id
    started = time.time()
    try:
        run_id = await reach(mesh, lambda client: _submit(client, task, submission), patience)
    except RequestIdReused as error:  # an earlier attempt had more time, or other answers to depend on
        run_id = error.metadata.get("run_id", "")
        if not run_id:
            raise
    except RunExpired:
        raise
    except (UnknownRole, UnknownCapability, FailedPrecondition) as error:
        raise _not_ready(mesh, error) from error
    task.record_tool_call(
        f"mesh {mesh.name}",
        {"request_id": submission.request_id},
        {"run_id": run_id},
        started=started,
        seconds=time.time() - started,
    )
    task.save(json.dumps({"request_id": submission.request_id, "run_id": run_id}).encode())
    return run_id


def _checkpointed(task: TaskContext, request_id: str) -> str:
    """The run that an earlier attempt has submitted by the same request; empty if it is unknown."""
    if not task.checkpoint:
        return ""
    try:
        saved = json.loads(task.checkpoint)
        return str(saved["run_id"]) if saved["request_id"] == request_id else ""
    except (ValueError, KeyError, TypeError):
        return ""


async def _submit(client: Client, task: TaskContext, submission: Submission) -> str:
    goal, choice = goal_of(task), submission.choice
    strategy, roles, planner = choice.strategy, choice.roles, choice.planner
    if not strategy:
        chosen = await client.choose_strategy(goal, roles=roles, planner=planner)
        strategy, roles = chosen.strategy, chosen.roles
        planner = planner if strategy == "plan" else ""
    options = RunOptions(
        strategy=strategy,
        roles=roles,
        planner=planner,
        budget=budget_of(task),
        metadata=submission.metadata,
        request_id=submission.request_id,
        timeout=_timeout(task),
    )
    return (await client.submit(goal, **options)).run_id


def budget_of(task: TaskContext) -> Budget | None:
    """Returns the budget of the run of a task: the slice of the attempt, or None if the task has no budget."""
    given = task.budget
    if given is None:
        return None
    return Budget(
        max_tokens=given.max_tokens,
        max_cost_micro_usd=given.max_cost_micro_usd,
        max_model_calls=given.max_model_calls,
    )


def _timeout(task: TaskContext) -> float | None:
    left = task.remaining()
    if left is None:
        return None
    if left < LEAST_TIMEOUT:
        raise DeadlineExceeded("the task's time is over")
    return min(left, MAX_TIMEOUT)


def _not_ready(mesh: OtherMesh, error: ArchonError) -> ArchonError:
    return type(error)(
        f"the mesh {mesh.name} refuses the run: {error}",
        reason=error.reason,
        metadata=error.metadata,
        retry=RetryAdvice.LATER,
        retry_delay=1.0,
        causes=[error],
    )
