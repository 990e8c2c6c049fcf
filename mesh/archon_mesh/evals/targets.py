"""Targets of evals, which execute cases: a mesh, in which each case is a run, or a function of the user."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Final, Protocol

from archon.api.common.v1 import question_pb2
from archon.client import Client, RunHandle
from archon.errors import ArchonError, DeadlineExceeded
from archon.types import Budget, RunEvent
from archon_mesh.evals.case import Case
from archon_mesh.evals.trajectory import Trajectory, trajectory_of
from archon_mesh.recorded import fetch_run

GRACE: Final = 30.0
"""Seconds after the time limit of a run within which it has to have ended."""

CANCEL_TIMEOUT: Final = 2.0
"""Seconds that an eval which is cancelled waits for the cancellation of a run."""

EVAL_KEY: Final = "archon.eval"
CASE_KEY: Final = "archon.eval.case"
"""The metadata of runs of an eval: its name, and the id of the case."""

APPROVALS: Final = ("approve", "reject")

CaseFunction = Callable[[Case], Awaitable[str | Trajectory]]
"""Executes a case, and returns the answer or a whole trajectory."""


class Target(Protocol):
    """Executes cases. `max_usd` is the part of the budget that the case may spend, None without a budget."""

    async def execute(self, case: Case, max_usd: float | None) -> Trajectory:
        """Returns the trajectory. Raises an ArchonError if the case could not be executed."""
        ...


class FunctionTarget:
    """Evaluates a function of the case, such as an agent without a mesh."""

    def __init__(self, function: CaseFunction) -> None:
        self._function = function

    async def execute(self, case: Case, max_usd: float | None) -> Trajectory:
        """Calls the function within the case's time. An error of the tree, and DeadlineExceeded after that time, are
        the failure of the case."""
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            async with asyncio.timeout(case.timeout):
                result = await self._function(case)
        except TimeoutError as error:
            failure = str(error) or f"no answer within {case.timeout:g} s"
            return Trajectory("", "failed", failure, seconds=clock() - began)
        except ArchonError as error:
            return Trajectory("", "failed", str(error), seconds=clock() - began)
        return result if isinstance(result, Trajectory) else Trajectory(result, seconds=clock() - began)


class MeshTarget:
    """A mesh as a target. `versions` are the versions of roles that the runs require, as in `Client.submit`; `name`
    goes into the metadata of the runs."""

    def __init__(self, client: Client, *, versions: Mapping[str, str] | None = None, name: str = "") -> None:
        self._client = client
        self._versions = versions
        self._name = name

    async def execute(self, case: Case, max_usd: float | None) -> Trajectory:
        """Executes a case as a run, and answers its questions. If the caller is cancelled, so is the run."""
        budget = None if max_usd is None else Budget(max_cost_micro_usd=max(1, int(max_usd * 1e6)))
        handle = await self._client.submit(
            case.submission(),
            roles=case.roles,
            strategy=case.strategy,
            planner=case.planner,
            versions=self._versions,
            budget=budget,
            timeout=case.timeout,
            metadata={EVAL_KEY: self._name, CASE_KEY: case.id},
        )
        try:
            async with asyncio.timeout(case.timeout + GRACE):
                await self._followed(handle, case)
        except (TimeoutError, ArchonError, asyncio.CancelledError) as error:
            await self._cancel(handle)
            if isinstance(error, TimeoutError) and not isinstance(error, ArchonError):
                raise DeadlineExceeded(f"run {handle.run_id} has not ended within {case.timeout:g} s") from None
            raise
        return await fetch_trajectory(self._client, handle.run_id, case)

    async def _followed(self, handle: RunHandle, case: Case) -> None:
        """Follows a run to its end, and answers its questions; cancels it at one without an answer. A hold of a
        breakpoint is left to the person who set it."""
        answers = iter(case.answers)
        async with aclosing(self._client.watch(handle.run_id, durable_only=True)) as events:
            async for event in events:
                if event.type in ("input_requested", "approval_requested") and not _holds(event):
                    await self._answer(event, next(answers, None))

    async def _answer(self, event: RunEvent, answer: str | None) -> None:
        if answer is None:
            await self._client.cancel(event.run_id, "it asked a person, and the case has no answer to that")
            return
        approval = event.type == "approval_requested" or event.data.get("kind") == "approval"
        decision = answer if approval and answer in APPROVALS else ""
        input_id = event.data["input_id"]
        await self._client.respond(event.run_id, input_id, "" if decision else answer, decision=decision)

    async def _cancel(self, handle: RunHandle) -> None:
        cancelling = asyncio.create_task(
            self._client.cancel(handle.run_id, "the eval was cancelled"), name="cancel run"
        )
        await asyncio.wait([cancelling], timeout=CANCEL_TIMEOUT)
        if not cancelling.done():
            cancelling.cancel()
        elif not cancelling.cancelled():
            cancelling.exception()  # the run's own time limit ends it


def _holds(event: RunEvent) -> bool:
    terms = getattr(event.proto, event.type).terms
    return bool(terms.trigger == question_pb2.TRIGGER_BREAKPOINT)


async def fetch_trajectory(client: Client, run_id: str, case: Case) -> Trajectory:
    """Returns the trajectory of a run, with its tool calls if an expectation of the case reads them."""
    calls = any(expectation.NEEDS_CALLS for expectation in case.expectations)
    return trajectory_of(await fetch_run(client, run_id, events=False, records=calls))
