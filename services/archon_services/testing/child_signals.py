"""Signals to child processes."""

from __future__ import annotations

import os
import signal
import subprocess


def send(child: subprocess.Popen[bytes], signum: int) -> None:
    """Sends a signal unless the child has ended.

    Returns from SIGSTOP once all threads of the child have stopped: kill(2) returns some milliseconds before that, and
    waitid(2) reports it to the parent.
    """
    child.send_signal(signum)
    if signum == signal.SIGSTOP and child.returncode is None:
        os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
