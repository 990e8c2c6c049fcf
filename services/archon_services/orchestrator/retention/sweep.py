"""The sweep: ended runs are compacted to their summary when their rules say so, and deleted later."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from archon.api.orchestrator.v1 import run_pb2
from archon.background import BackgroundLoop
from archon.errors import DataLoss, ResourceExhausted, Unavailable
from archon_mesh.engine import RunState
from archon_services.orchestrator.convert.event_revision import REVISION
from archon_services.orchestrator.convert.run_view import run_to_proto
from archon_services.orchestrator.journal import DetailedRun, Journal
from archon_services.orchestrator.ports import Clock
from archon_services.orchestrator.retention.rules import FOREVER, RetentionRules, RunFacts, default_rules
from archon_services.orchestrator.runs.states.load import load_run

_log = logging.getLogger(__name__)

INTERVAL: Final = 60.0
LEAST_INTERVAL: Final = 0.5
PAGE: Final = 100
DAY: Final = 86_400.0
MAX_KEPT: Final = 1_000
"""Runs of one sweep whose details are kept although they are older than the shortest time of the rules; the next sweep
goes on behind them."""

CLOCK_ERROR: Final = 60.0
"""Seconds by which a time may be in the future before it counts as one of a clock that was set back since."""


class Retention:
    """Compacts and deletes ended runs by rules, by default each so many seconds after its end. A request id outlives
    its run by a day. Of a run that ended in the future, by a clock that was set back since, the age counts from the
    next sweep on."""

    def __init__(
        self,
        journal: Journal,
        clock: Clock,
        *,
        compact_after: float = DAY,
        delete_after: float = 30 * DAY,
        rules: RetentionRules | None = None,
    ):
        """Without `rules`, details are kept for `compact_after` seconds and summaries for `delete_after`; turns of
        conversations are kept for `delete_after` in any case."""
        self._journal = journal
        self._clock = clock
        self._delete_after = delete_after
        self._rules = rules or default_rules(compact_after, delete_after)
        self._position = (0.0, "")
        """The (ended_at, run_id) of the last run that the sweep before looked at, if it did not reach the end."""

        self._loop = BackgroundLoop("retention", self._run, backoff_max=INTERVAL)

    def start(self) -> None:
        """Sweeps every minute until `close`, more often if runs are kept for less than four minutes."""
        self._loop.start()

    async def close(self) -> None:
        """Ends the loop that sweeps. Idempotent."""
        await self._loop.close()

    async def sweep(self) -> tuple[int, int]:
        """Compacts and deletes the runs that are due; returns how many of each. Looks at no more than MAX_KEPT runs
        that are not due; the next sweep goes on behind them. Skips runs that cannot be loaded."""
        now, compacted, kept = self._clock.now(), 0, 0
        await self._journal.bound_times(now + CLOCK_ERROR)
        position, self._position = self._position, (0.0, "")
        while self._rules.shortest < FOREVER:
            page = await self._journal.detailed_runs(now - self._rules.shortest, position, PAGE, revision=REVISION)
            for run in page:
                position = (run.ended_at, run.run_id)
                removed = await self._remove_details(run, now)
                compacted += removed
                kept += not removed
            if len(page) < PAGE:
                break
            if kept >= MAX_KEPT:
                self._position = position
                break
        delete_before = now - self._rules.summaries if self._rules.summaries < FOREVER else 0.0
        turns_before = now - self._delete_after
        return compacted, await self._journal.delete(delete_before, now, DAY, turns_before=turns_before)

    async def _remove_details(self, run: DetailedRun, now: float) -> bool:
        """Compacts a run if its rules say so. Returns whether it did."""
        state: RunState | None = None
        try:
            if self._rules.need_labels:
                state = await load_run(self._journal, run.run_id)
            facts = RunFacts(run.run_id, run.tenant, run.state, run.marked, _labels(state))
            if now - run.ended_at <= self._rules.keep_details(facts):
                return False
            state = state or await load_run(self._journal, run.run_id)
            await self._journal.compact(run.run_id, run_to_proto(state).SerializeToString())
        except (Unavailable, ResourceExhausted):
            raise  # the journal's error, not the run's
        except Exception as error:  # noqa: BLE001 - an error in one run concerns no other
            doing = "compacted" if isinstance(error, DataLoss) and state is not None else "loaded and is not compacted"
            _log.error("run %s cannot be %s: %s", run.run_id, doing, error, extra={"run_id": run.run_id})
            return False
        return True

    async def _run(self) -> None:
        shortest = min(self._rules.shortest, self._rules.summaries, self._delete_after)
        interval = max(LEAST_INTERVAL, min(INTERVAL, shortest / 4))
        while True:
            await self.sweep()
            self._loop.report_progress()
            await asyncio.sleep(interval)


def _labels(state: RunState | None) -> dict[str, str]:
    goal = state.submission.goal if state is not None and state.submission is not None else None
    return dict(goal.metadata) if isinstance(goal, run_pb2.Submitted) else {}
