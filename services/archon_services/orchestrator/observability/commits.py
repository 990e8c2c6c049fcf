"""Measures the commits of the journal."""

from __future__ import annotations

from collections.abc import Sequence

from archon.telemetry import metrics
from archon.telemetry.metrics import Recorder
from archon_services.orchestrator.journal import Outcome, SameRequest, StepResult


class CommitMeasurement:
    """Records the duration of commits and the outcomes of their steps."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        for outcome in ("stored", "refused", "failed"):
            recorder.add(metrics.JOURNAL_STEPS, (outcome,), 0)

    def done(self, seconds: float, results: Sequence[StepResult]) -> None:
        """Records a commit that has ended. Costs the same for one step and for many that are stored."""
        self._recorder.record(metrics.COMMIT_DURATION, seconds)
        stored = results.count(Outcome.DONE)
        if stored:
            self._recorder.add(metrics.JOURNAL_STEPS, ("stored",), stored)
        if stored == len(results):
            return
        refused = sum(isinstance(result, (Outcome, SameRequest)) for result in results) - stored
        self._recorder.add(metrics.JOURNAL_STEPS, ("refused",), refused)
        self._recorder.add(metrics.JOURNAL_STEPS, ("failed",), len(results) - stored - refused)

    def failed(self, seconds: float, steps: int) -> None:
        """Records a commit that raised an error."""
        self._recorder.record(metrics.COMMIT_DURATION, seconds)
        self._recorder.add(metrics.JOURNAL_STEPS, ("failed",), steps)
