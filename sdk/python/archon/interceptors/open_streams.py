"""The streams of a server that are open: each ends when the credentials of its caller end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from archon.errors import Unauthenticated
from archon.principal import Principal
from archon.security.authenticator import Authenticator


class OpenStreams:
    """The streams in progress of callers with credentials."""

    def __init__(self, authenticator: Authenticator) -> None:
        self.authenticator = authenticator
        self._open: dict[asyncio.Task[object], Principal] = {}
        self._refused: dict[asyncio.Task[object], Unauthenticated] = {}

    @contextmanager
    def opened(self, principal: Principal | None) -> Iterator[None]:
        """The current task serves a stream of a caller within the block."""
        task = asyncio.current_task()
        if principal is None or task is None:
            yield
            return
        self._open[task] = principal
        try:
            yield
        finally:
            del self._open[task]

    def end_refused(self) -> None:
        """Cancels the streams whose caller's credentials have expired or were revoked."""
        for task, principal in list(self._open.items()):
            try:
                self.authenticator.check(principal)
            except Unauthenticated as error:
                if task not in self._refused:
                    self._refused[task] = error
                    task.cancel()

    def take_refusal(self) -> Unauthenticated | None:
        """Returns why the current task was cancelled by `end_refused`; None if it was not. Call it once the task has
        been cancelled."""
        task = asyncio.current_task()
        error = self._refused.pop(task, None) if task is not None else None
        if error is not None and task is not None:
            task.uncancel()
        return error
