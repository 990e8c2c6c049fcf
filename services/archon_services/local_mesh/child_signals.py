"""Signals to children of this process."""

from __future__ import annotations

import os
import signal
import subprocess


def send(child: subprocess.Popen[bytes], number: int) -> None:
    """Sends a signal, unless the child has ended. Returns from SIGSTOP when the last of its threads has stopped: the
    kernel says so to the parent, and kill(2) is back some milliseconds earlier."""
    child.send_signal(number)
    if number == signal.SIGSTOP and child.returncode is None:
        os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
