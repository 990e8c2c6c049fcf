"""The client of rooms that follow runs: it reads the watch that all viewers of a run share, in whatever protocol."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Final

from typing_extensions import override

from archon.client import WATCH_PATIENCE, Client
from archon.security.credentials import Credentials
from archon.types.run_event import RunEvent
from archon_services.gateway.watches.batches import REACHED_WITHIN, batches_from, settled
from archon_services.gateway.watches.frame import Frame
from archon_services.gateway.watches.runs import RunWatches
from archon_services.gateway.watches.topic import Fallen, Topic

Check = Callable[[], None]
"""Raises if the credentials of a follower are not valid any more; called each second."""

Follower = Callable[[], tuple[str, Check]]
"""Returns the tenant of the caller that is being served, and its check. Raises PermissionDenied if it may not watch."""

NOW: Final = 0.0
"""Patience of a caller that reads the past of a run, and does not wait for its future."""


class FollowingClient(Client):
    """A client of the orchestrator whose watches of a run are one, shared with all other viewers of the run."""

    def __init__(
        self, target: str, watches: RunWatches, follower: Follower, *, credentials: Credentials | None = None
    ) -> None:
        super().__init__(target, credentials=credentials)
        self._watches, self._follower = watches, follower

    @override
    async def watch(
        self, run_id: str, after_seq: int = 0, *, durable_only: bool = False, patience: float = WATCH_PATIENCE
    ) -> AsyncGenerator[RunEvent, None]:
        """Yields the events as `Client.watch`. With the patience NOW they come from a watch of the caller's own."""
        if patience == NOW:
            async with aclosing(super().watch(run_id, after_seq, durable_only=durable_only, patience=NOW)) as events:
                async for event in events:
                    yield event
            return
        tenant, check = self._follower()
        while True:
            try:
                async with self._watches.viewing(tenant, run_id) as topic:
                    joined = topic.end_position
                    await settled(topic)
                    await topic.reach(after_seq, REACHED_WITHIN)
                    async with aclosing(self._watches.earlier(topic, tenant, run_id, after_seq)) as earlier:
                        async for frame in earlier:
                            after_seq = frame.number
                            yield RunEvent(frame.message)
                            check()
                    frames = _frames(topic, after_seq, _checking(topic, check, patience))
                    async with aclosing(frames):
                        async for frame, position in frames:
                            after_seq = frame.number or after_seq
                            if frame.number or (position >= joined and not durable_only):
                                yield RunEvent(frame.message)
                return
            except Fallen:
                continue  # after the last event, from the journal


async def _frames(topic: Topic, after: int, check: Check) -> AsyncGenerator[tuple[Frame, int], None]:
    """Yields the frames of a topic after a number, with their positions."""
    position = topic.end_position if topic.stopped else topic.position_after(after)
    async with aclosing(batches_from(topic, position, check)) as batches:
        async for batch in batches:
            for frame in batch:
                yield frame, position
                position += 1


def _checking(topic: Topic, check: Check, patience: float) -> Check:
    """Returns a check that raises, too, if the watch of a topic is interrupted for longer than `patience` seconds."""

    def checked() -> None:
        check()
        since = topic.interrupted_at
        if since is not None and topic.interruption is not None and time.monotonic() - since > patience:
            raise topic.interruption

    return checked
