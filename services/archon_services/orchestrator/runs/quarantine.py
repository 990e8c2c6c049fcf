"""Quarantine: ends a run that no replica can go on with, so that callers who wait for it get an answer."""

from __future__ import annotations

import asyncio
import logging

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.wire import timestamp
from archon_mesh.core.run import events as ev
from archon_mesh.core.run import inputs as inp
from archon_mesh.core.run.codec import encode_inputs
from archon_mesh.core.run.types import Failure, TaskState
from archon_services.orchestrator.convert import write_event
from archon_services.orchestrator.journal import Journal, RunRow, Step

_log = logging.getLogger(__name__)


async def quarantine(journal: Journal, row: RunRow, now: float) -> None:
    """Stores the run's last event without folding the events before it, which stay as they are. `now` is in wall
    seconds."""
    failure = Failure(
        "INTERNAL",
        "QUARANTINED",
        f"the run was taken over {row.stalled + 1} times and could not go on; its journal is kept as it is",
        (("run_id", row.run_id), ("last_seq", str(row.last_seq))),
    )
    ended = ev.RunEnded(TaskState.FAILED, failure, ())
    seq = row.last_seq + 1
    response = pb.WatchRunResponse()
    write_event(response.events.add(), ended, run_id=row.run_id, seq=seq, time=timestamp(now), epoch=row.epoch)
    step = Step(
        run_id=row.run_id,
        epoch=row.epoch,
        base=row.last_seq,
        last_seq=seq,
        batch_id=f"quarantine-{row.epoch}",
        time=now,
        data=response.SerializeToString(),
        inputs=encode_inputs([inp.Tick()], now),
        state=int(common_pb2.TASK_STATE_FAILED),
        ended=True,
    )
    results = journal.commit([step])
    if isinstance(results, asyncio.Future):
        results = await results
    _log.error("run %s is quarantined: %s", row.run_id, results[0], extra={"run_id": row.run_id})
