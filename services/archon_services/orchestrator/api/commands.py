"""What callers can ask of runs, whatever the way they ask. Runs of other tenants are not there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from archon import context
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.api.orchestrator.v1 import run_pb2
from archon.errors import ArchonError, DataLoss, OutOfRange, RunExpired, Unavailable, UnknownRun
from archon_mesh.core.run.types import Submission
from archon_services.orchestrator.api.control import RunControl
from archon_services.orchestrator.api.render import row_to_proto, run_to_proto
from archon_services.orchestrator.api.validation import check_submit, payload_hash, time_of, wants_agent
from archon_services.orchestrator.convert import from_journal
from archon_services.orchestrator.convert.read import budget_from_proto, outside_from_proto
from archon_services.orchestrator.journal import Journal, NewRun, RunRow
from archon_services.orchestrator.journal.memory.journal import same_request
from archon_services.orchestrator.roles.registry_watch import RegistryWatch
from archon_services.orchestrator.runs.manager import Runs
from archon_services.orchestrator.shared_memory.recall import SessionRecall
from archon_services.orchestrator.watch.forward import WatchForwarder

ANSWER_MARGIN = 0.2


class Commands:
    """Raises Archon's errors."""

    def __init__(
        self,
        runs: Runs,
        journal: Journal,
        follower: RegistryWatch,
        relays: WatchForwarder,
        now: Callable[[], float],
        memory: SessionRecall | None = None,
    ) -> None:
        """`now` in wall seconds; `memory` is None where there is no shared memory."""
        self.orders = RunControl(runs, journal, now)
        self._runs = runs
        self._journal = journal
        self._follower = follower
        self._relays = relays
        self._memory = memory

    async def submit(self, request: pb.SubmitRunRequest) -> tuple[str, bool]:
        """Takes a run on; it is durable when this returns. (run_id, True), or (the same request's run, False). Raises
        RunExpired where that one was deleted after its time: the request id is remembered for longer."""
        run_id, created = await self._submit(request)
        if not created and self._runs.held(run_id) is None and await self._journal.run(run_id) is None:
            raise RunExpired(
                f"request id {request.request_id!r} made run {run_id}, which was deleted after its time",
                metadata={"request_id": request.request_id, "run_id": run_id},
            )
        return run_id, created

    async def _submit(self, request: pb.SubmitRunRequest) -> tuple[str, bool]:
        check_submit(request)
        payload = payload_hash(request) if request.request_id else b""
        try:
            submission = await self._submission(request)
        except ArchonError:
            # A request that was taken on stays taken on, whoever lives by now.
            known = await self._journal.request(_tenant(), request.request_id) if request.request_id else None
            if known is None:
                raise
            return same_request(known[0], NewRun("", _tenant(), request.request_id, payload, "", ""), known[1])
        return await self._runs.submit(submission, payload)

    async def _submission(self, request: pb.SubmitRunRequest) -> Submission:
        agent = wants_agent(request)
        chosen = await self._follower.choose(request.roles, request.capabilities, request.versions, agent=agent)
        said = run_pb2.Submitted(goal=request.goal, metadata=request.metadata)
        if request.HasField("trace"):
            said.trace.CopyFrom(request.trace)
        elif context.current().traceparent:
            said.trace.traceparent = context.current().traceparent
            said.trace.tracestate = context.current().tracestate
        if request.HasField("budget"):
            said.budget.CopyFrom(request.budget)
        if request.session_id and chosen.readers and self._memory is not None:
            await self._memory.recall(said, request.session_id, chosen, self._follower.selection.graph.roles)
        return Submission(
            run_id=self._runs.new_id(),
            tenant=_tenant(),
            request_id=request.request_id,
            session_id=request.session_id,
            strategy="agent" if agent else "pipeline",
            roles=chosen.roles,
            edges=chosen.edges,
            timeout=time_of(request),
            goal=said,
            requirements=chosen.requirements,
            all_ancestors=chosen.all_ancestors,
            targets=chosen.targets,
            budget=budget_from_proto(request.budget),
            session_context=outside_from_proto(said.session_context),
        )

    async def wait(self, run_id: str, seconds: float) -> None:
        """Until the run has ended, so many seconds have passed, or the caller must have its answer."""
        left = context.current().remaining()
        bound = seconds if left is None else min(seconds, max(0.0, left - ANSWER_MARGIN))
        try:
            async with asyncio.timeout(bound):
                if self._runs.holds(run_id):
                    await self._runs.finished(run_id)
                if self._journal.shared and self._runs.held(run_id) is None:
                    async for _ in self.watch(pb.WatchRunRequest(run_id=run_id, durable_only=True)):
                        pass
        except (TimeoutError, RunExpired):
            return

    async def row(self, run_id: str) -> RunRow:
        """A run's row in the journal. Raises UnknownRun."""
        row = await self._journal.run(run_id)
        if row is None or row.tenant != _tenant():
            raise UnknownRun(f"no run has the id {run_id!r}", metadata={"run_id": run_id})
        return row

    async def run(self, run_id: str) -> run_pb2.Run:
        """A run as it stands. Raises UnknownRun."""
        held = self._runs.held(run_id)
        if held is not None and held.submission is not None and held.submission.tenant == _tenant():
            return run_to_proto(held)
        row = await self.row(run_id)
        if row.compacted:
            return from_journal(run_pb2.Run, row.summary, run_id)
        try:
            return run_to_proto(await self._runs.state(run_id))
        except DataLoss:
            if not row.ended_at:
                raise
            return await self._quarantined(row)

    async def _quarantined(self, row: RunRow) -> run_pb2.Run:
        """A run that nobody could go on with: what can be said of it without folding."""
        run = row_to_proto(row)
        for data in await self._journal.events(row.run_id, row.last_seq - 1):
            run.failure.CopyFrom(from_journal(run_pb2.RunEvent, data, row.run_id).run_state.failure)
        return run

    async def watch(
        self, request: pb.WatchRunRequest, *, relayed: bool = False
    ) -> AsyncGenerator[list[run_pb2.RunEvent], None]:
        """Batches of events; ends after the last. `relayed`: another replica asks, which takes this one for the owner.
        Raises UnknownRun, RunExpired, OutOfRange, Unavailable."""
        row = await self.row(request.run_id)
        if row.compacted:
            raise RunExpired(f"the events of run {request.run_id} are gone, GetRun has its answers")
        if not 0 <= request.after_seq <= row.last_seq:
            raise OutOfRange(
                f"after_seq is {request.after_seq}, the run's last event is {row.last_seq}",
                metadata={"last_seq": str(row.last_seq)},
            )
        if row.ended_at and request.after_seq == row.last_seq:
            return
        if relayed and not self._runs.holds(request.run_id):
            raise Unavailable(f"run {request.run_id} is not owned here")
        follow = self._runs.watchers.follow(request.run_id, request.after_seq, durable_only=request.durable_only)
        async with self._relays.following(request.run_id, relayed=relayed), aclosing(follow):
            async for events in follow:
                yield events


def _tenant() -> str:
    return context.current().tenant
