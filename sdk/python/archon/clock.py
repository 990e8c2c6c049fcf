"""The monotonic clock as the default of arguments: it is looked up at each call."""

from __future__ import annotations

import time


def monotonic() -> float:
    """Returns `time.monotonic()`. A default that is the function of `time` itself would keep the one of the import, and
    would not follow a test that moves the clock of the process (`archon_mesh.testing.VirtualTime`)."""
    return time.monotonic()
