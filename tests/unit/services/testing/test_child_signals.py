"""Signals to children."""

from __future__ import annotations

import mmap
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from archon_services.testing import child_signals as signals
from tests.fixtures.waiting import wait_until

THREADS, TIMES = 4, 40
COUNTS = f"""
import ctypes, mmap, sys, threading
with open(sys.argv[1], "r+b") as file:
    shared = mmap.mmap(file.fileno(), 0)
def count(thread):
    cell = ctypes.c_uint64.from_buffer(shared, 8 * thread)
    while True:
        cell.value += 1
for thread in range({THREADS}):
    threading.Thread(target=count, args=(thread,)).start()
"""


def states(pid: int) -> list[str]:
    """Returns the state of each thread of a process."""
    return [stat.read_text().rpartition(") ")[2][0] for stat in Path(f"/proc/{pid}/task").glob("*/stat")]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the states of threads")
def test_nothing_of_a_frozen_child_runs_on(tmp_path: Path) -> None:
    path = tmp_path / "counts"
    path.write_bytes(bytes(8 * THREADS))
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as counts:
        child = subprocess.Popen([sys.executable, "-c", COUNTS, str(path)])
        try:
            wait_until(lambda: all(counts[8 * thread : 8 * thread + 8] != bytes(8) for thread in range(THREADS)))
            frozen = bytes(8 * THREADS)
            for _ in range(TIMES):
                wait_until(lambda before=frozen: counts[:] != before)  # type: ignore[misc]
                signals.send(child, signal.SIGSTOP)
                frozen = counts[:]
                assert states(child.pid) == ["T"] * (1 + THREADS)
                assert counts[:] == frozen
                signals.send(child, signal.SIGCONT)
        finally:
            child.kill()
            child.wait(10)


def test_a_child_that_has_ended_is_sent_nothing() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait(10)
    signals.send(child, signal.SIGSTOP)
    assert child.returncode == 0
