"""The clock of a run that goes on in other processes."""

from __future__ import annotations

import time
from collections.abc import Callable


def run_clock(latest: float) -> Callable[[], float]:
    """Returns a clock in wall seconds that begins at `latest`, the time of the run's last event, or now if that is
    later, and goes on with the monotonic clock: no jump of the wall clock makes a wait longer or shorter while the run
    goes on."""
    begin, origin = max(latest, time.time()), time.monotonic()
    return lambda: begin + time.monotonic() - origin
