"""Quarantine: ends a run that no replica can go on with, so that callers who wait for it get an answer."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.errors import ArchonError
from archon.history import AuditKey, SealReason
from archon.wire import timestamp
from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.codec import encode_inputs
from archon_mesh.engine.types import Failure, TaskState
from archon_services.orchestrator.convert import write_event
from archon_services.orchestrator.journal import Journal, Outcome, RunRow, Step
from archon_services.orchestrator.ports import Transport
from archon_services.orchestrator.runs.states.load import load_run
from archon_services.orchestrator.runs.turn.chain import RunChain, StepSealer

_log = logging.getLogger(__name__)

PAUSES: Final = (0.2, 1.0, 3.0)
"""Seconds before the last event is stored again if it is not known whether it is stored."""


async def quarantine(
    journal: Journal, transport: Transport, row: RunRow, now: float, key: AuditKey | None = None
) -> None:
    """Stores the run's last event without folding the events before it, which stay as they are; then cancels the
    attempts that they name, if they can be read. `now` is in wall seconds, `key` seals the end."""
    outcome = await _store_end(journal, row, now, key)
    _log.error("run %s is quarantined: %s", row.run_id, outcome, extra={"run_id": row.run_id})
    if outcome is Outcome.DONE:
        await _cancel_attempts(journal, transport, row)


async def _store_end(journal: Journal, row: RunRow, now: float, key: AuditKey | None) -> object:
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
    data, inputs = response.SerializeToString(), encode_inputs([inp.Tick()], now)
    link = RunChain(row.run_id).next(row.last_seq, seq, data, inputs)  # the steps before may be unreadable
    step = Step(
        run_id=row.run_id,
        epoch=row.epoch,
        base=row.last_seq,
        last_seq=seq,
        batch_id=f"quarantine-{row.epoch}",
        time=now,
        data=data,
        inputs=inputs,
        state=int(common_pb2.TASK_STATE_FAILED),
        ended=True,
        link=link,
        seal_reason=SealReason.QUARANTINE,
    )
    StepSealer(key).seal([step])
    outcome = await _commit(journal, step)
    for pause in PAUSES:
        if not isinstance(outcome, ArchonError):
            break
        await asyncio.sleep(pause)
        outcome = await _commit(journal, step)
    return outcome


async def _commit(journal: Journal, step: Step) -> object:
    results = journal.commit([step])
    if isinstance(results, asyncio.Future):
        results = await results
    return results[0]


async def _cancel_attempts(journal: Journal, transport: Transport, row: RunRow) -> None:
    """Cancels the attempts of the ended run: one that waits for a person would hold its slot for a day."""
    try:
        run = await load_run(journal, row.run_id)
    except ArchonError as error:
        _log.warning("the attempts of run %s are not cancelled: %s", row.run_id, error, extra={"run_id": row.run_id})
        return
    for task in run.tasks.values():
        attempts = [*task.abandoned, (task.attempt, task.instance_id)] if task.live else task.abandoned
        for attempt, instance_id in attempts:
            ref = common_pb2.TaskRef(task_id=task.task_id, run_id=row.run_id, attempt=attempt, epoch=row.epoch)
            transport.cancel(instance_id, ref, "the run is quarantined")
