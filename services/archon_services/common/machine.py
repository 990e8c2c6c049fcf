"""The machine: its wall clock, and the identity of its boot."""

from __future__ import annotations

import subprocess
import sys
import time
from functools import cache
from pathlib import Path


@cache
def boot_id() -> str:
    """Returns the identity of the current boot, which differs after a power cut or a restart of the machine: 36
    characters at most, empty if the system has none."""
    if sys.platform == "darwin":
        command = ["/usr/sbin/sysctl", "-n", "kern.bootsessionuuid"]
        try:
            return subprocess.run(command, capture_output=True, text=True, timeout=5, check=True).stdout.strip()[:36]
        except (OSError, subprocess.SubprocessError):
            return ""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:36]
    except OSError:
        return ""


def wall_time() -> float:
    """Returns the wall clock in seconds. Services read it here and not from `time`, whose clock also times the calls of
    gRPC: a test can move this one. Call it as an attribute of this module."""
    return time.time()
