"""A process that a fork server has started: the part of asyncio.subprocess.Process that a supervisor uses."""

from __future__ import annotations

import asyncio
import os
import signal


class ForkedProcess:
    """A child of this process. Create it in a running event loop. `returncode` is negative for a signal, and None while
    it runs."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._ended = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._descriptor = os.pidfd_open(pid)  # readable when it has ended
        self._loop.add_reader(self._descriptor, self._reap)

    async def wait(self) -> int:
        """Waits until it has ended; returns `returncode`."""
        await self._ended.wait()
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Sends a signal, unless the process has ended."""
        if self.returncode is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Sends SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def _reap(self) -> None:
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if not pid:
            return
        self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)
        self.returncode = os.waitstatus_to_exitcode(status)
        self._ended.set()
