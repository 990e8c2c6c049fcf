"""Limits of the runs of a process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MAX_RUNS: Final = 5_000
MAX_PAUSED: Final = 5_000
PAUSE_TIMEOUT: Final = 7 * 86_400.0

MAX_FAILURES: Final = 1_000
"""Failures of one class in a minute above which new runs are refused, if most attempts fail."""

MAX_JOURNAL_BYTES: Final = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class RunLimits:
    """The settings `max_runs`, `max_paused_runs`, `pause_timeout` (seconds), `max_failures` and `max_run_bytes`."""

    runs: int = MAX_RUNS
    paused: int = MAX_PAUSED
    pause_timeout: float = PAUSE_TIMEOUT
    failures: int = MAX_FAILURES
    journal_bytes: int = MAX_JOURNAL_BYTES
