"""Ends a run that nobody can go on with, so that whoever waits for it hears. Its events stay as they are."""

from __future__ import annotations

import logging

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon_mesh.core.run import events as ev
from archon_mesh.core.run import inputs as inp
from archon_mesh.core.run.codec import encode_inputs
from archon_mesh.core.run.types import Failure, TaskState
from archon_services.orchestrator.convert import event_to_proto
from archon_services.orchestrator.convert.write import timestamp
from archon_services.orchestrator.journal import Append, Journal, RunRow

_log = logging.getLogger(__name__)


async def quarantine(journal: Journal, row: RunRow, now: float) -> None:
    """Writes the run's last event without folding what came before. `now` in wall seconds."""
    failure = Failure(
        "INTERNAL",
        "QUARANTINED",
        f"the run was taken up {row.stalled + 1} times and could not go on; its journal is kept as it stands",
        (("run_id", row.run_id), ("last_seq", str(row.last_seq))),
    )
    ended = ev.RunEnded(TaskState.FAILED, failure, ())
    seq = row.last_seq + 1
    event: run_pb2.RunEvent = event_to_proto(ended, run_id=row.run_id, seq=seq, time=timestamp(now), epoch=row.epoch)
    append = Append(
        run_id=row.run_id,
        epoch=row.epoch,
        last_seq=row.last_seq,
        batch_id=f"quarantine-{row.epoch}",
        time=now,
        events=(event.SerializeToString(),),
        inputs=encode_inputs([inp.Tick()], now),
        state=int(common_pb2.TASK_STATE_FAILED),
        ended=True,
    )
    outcome = await journal.append(append)
    _log.error("run %s is quarantined: %s", row.run_id, outcome.value)
