"""Commands of callers for a run, passed to its owner: cancel, pause, resume, and answers to questions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from archon import context
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.errors import FailedPrecondition, Unavailable
from archon_mesh.core.people import Breakpoint
from archon_mesh.engine import inputs as inp
from archon_services.orchestrator.api.answers import check_answer, repeats, response_to
from archon_services.orchestrator.audit import AuditRecord
from archon_services.orchestrator.convert.command import encode_command
from archon_services.orchestrator.journal import AuditRow, Journal, RunRow
from archon_services.orchestrator.ports import Delivery
from archon_services.orchestrator.runs.manager import Runs
from archon_services.orchestrator.runs.receipts import DEPOSED

TIMEOUT: Final = 10.0
"""Seconds that a command waits until the run has decided about it."""

FIRST_LOOK: Final = 0.01
LONGEST_PAUSE: Final = 0.2
"""Seconds between two looks whether another replica has executed a command; doubled with each look."""


class RunControl:
    """Each method returns when the run has decided about its command, here or at its owner on another replica: a
    command that came second, or after the run's end, raises. A command whose outcome is unknown when the time is over
    raises Unavailable, and may still be executed.

    `now` returns wall seconds.
    """

    def __init__(self, runs: Runs, journal: Journal, now: Callable[[], float], audit: AuditRecord) -> None:
        self._runs = runs
        self._journal = journal
        self._now = now
        self._audit = audit

    async def cancel(self, row: RunRow, reason: str) -> None:
        """Cancels the run; does nothing if it has ended. Raises Unavailable."""
        if not row.ended_at:
            audit = self._audit.row("run.cancel", run_id=row.run_id, details={"reason": reason} if reason else {})
            await self._deliver(row.run_id, inp.Cancel(context.current().identity, reason), audit)

    async def pause(self, row: RunRow) -> None:
        """Pauses the run; does nothing if it is paused. Raises FailedPrecondition if it has ended, ResourceExhausted if
        too many are paused, or Unavailable."""
        _check_not_ended(row)
        self._runs.check_pause(row.run_id)
        audit = self._audit.row("run.pause", run_id=row.run_id)
        await self._deliver(row.run_id, inp.Pause(context.current().identity), audit)
        await self._check_open(row.run_id)

    async def resume(self, row: RunRow) -> None:
        """Resumes the run; does nothing if it is not paused. Raises FailedPrecondition if it has ended, or
        Unavailable."""
        _check_not_ended(row)
        audit = self._audit.row("run.resume", run_id=row.run_id)
        await self._deliver(row.run_id, inp.Resume(context.current().identity), audit)
        state = await self._runs.state(row.run_id)
        if state.ended and state.paused:  # one that was resumed may have completed since
            raise _ended(row.run_id)

    async def set_breakpoints(self, row: RunRow, breakpoints: tuple[Breakpoint, ...]) -> None:
        """Sets the breakpoints of the run. Raises FailedPrecondition if it has ended, or Unavailable."""
        _check_not_ended(row)
        texts = [str(each) for each in breakpoints]
        audit = self._audit.row("run.set-breakpoints", run_id=row.run_id, details={"breakpoints": texts})
        await self._deliver(row.run_id, inp.SetBreakpoints(context.current().identity, breakpoints), audit)
        await self._check_open(row.run_id)

    async def edit_plan(self, row: RunRow, edit: inp.EditPlan) -> None:
        """Delivers an edit, which the engine may still refuse. Raises FailedPrecondition if the run has ended, or
        Unavailable."""
        _check_not_ended(row)
        audit = self._audit.row("run.edit-plan", run_id=row.run_id, details={"expected_seq": edit.expected_seq})
        await self._deliver(row.run_id, edit, audit)

    async def respond(self, row: RunRow, request: pb.RespondRequest) -> None:
        """Answers an open question. Raises InvalidArgument if the answer is empty, does not match the schema or is no
        decision where one is needed, MessageTooLarge, FailedPrecondition if the question is not open, PermissionDenied
        if the caller is not among its approvers, RequestIdReused, or Unavailable."""
        check_answer(request)
        state = await self._runs.state(row.run_id)
        if repeats(state, request):
            return
        response = response_to(state, request, self._now())
        details = {"decision": response.decision.name.lower()} if response.decision else {}
        audit = self._audit.row("run.answer", run_id=row.run_id, target=request.input_id, details=details)
        await self._deliver(row.run_id, response, audit)
        if not repeats(await self._runs.state(row.run_id), request):
            raise FailedPrecondition(
                f"question {request.input_id!r} was answered meanwhile, or is no longer open",
                metadata={"input_id": request.input_id},
            )

    async def _check_open(self, run_id: str) -> None:
        """Raises FailedPrecondition if the run ended before a command, or at the same time."""
        row = await self._journal.run(run_id)
        if row is not None:
            _check_not_ended(row)

    async def _deliver(self, run_id: str, command: inp.Command, audit: AuditRow) -> None:
        """Delivers a command to the run here, or posts it to the owner on another replica; again if the run moves.
        `audit` is stored with its effect, or as it is posted."""
        moved = True
        while moved:
            if self._journal.shared and not self._runs.holds(run_id):
                await self._executed(await self._journal.post(run_id, encode_command(command, self._now()), audit))
                return
            receipt = _DurableReceipt()
            self._runs.deliver(run_id, Delivery(command, receipt, audit=audit))
            moved = await receipt.wait()

    async def _executed(self, row_id: int) -> None:
        """Returns when a posted command has been executed, or dropped since its run has ended. Raises Unavailable."""
        pause = FIRST_LOOK
        try:
            async with asyncio.timeout(context.timeout(TIMEOUT)):
                while await self._journal.is_posted(row_id):
                    await asyncio.sleep(pause)
                    pause = min(LONGEST_PAUSE, pause * 2)
        except TimeoutError:
            raise Unavailable(
                "the run's orchestrator has not executed the command yet; it is stored and will be executed",
                retry_delay=1.0,
            ) from None


def _check_not_ended(row: RunRow) -> None:
    if row.ended_at:
        raise _ended(row.run_id)


def _ended(run_id: str) -> FailedPrecondition:
    return FailedPrecondition(f"run {run_id} has ended", metadata={"run_id": run_id})


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
