"""An orchestrator whose wall clock jumps ahead by an hour with each SIGUSR1, and back by two with each SIGUSR2. From the
start it is JUMPING_AHEAD seconds ahead."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

_real = time.time
_offset = float(os.environ.get("JUMPING_AHEAD", "0"))


def _now() -> float:
    return _real() + _offset


def _jump(seconds: float) -> None:
    global _offset
    _offset += seconds


def _ahead(*_: Any) -> None:
    _jump(3600.0)


def _back(*_: Any) -> None:
    _jump(-7200.0)


if __name__ == "__main__":
    time.time = _now
    from archon_services.orchestrator.__main__ import main

    signal.signal(signal.SIGUSR1, _ahead)
    signal.signal(signal.SIGUSR2, _back)
    sys.exit(main())
