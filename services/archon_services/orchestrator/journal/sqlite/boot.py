"""The identity of the current run of the machine: it differs after a power cut or a restart of the machine."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path


@cache
def boot_id() -> str:
    """Returns the identity, 36 characters at most; empty if the system has none."""
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
