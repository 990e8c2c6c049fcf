"""The server-sent events of one AG-UI run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Final

from ag_ui.core import BaseEvent, RunAgentInput, RunErrorEvent
from ag_ui.encoder import EventEncoder

from archon import status
from archon.client import Client
from archon.errors import ArchonError, Unavailable
from archon.types.run_event import RunEvent
from archon.types.run_question import RunQuestion
from archon_services.gateway.agui.run_fold import RunFold
from archon_services.gateway.agui.runs import RunPart, give
from archon_services.gateway.events.frames import HEARTBEAT, first_frame

SILENCE: Final = 15.0
"""Seconds without an event after which a heartbeat is sent."""

SETTLE: Final = 1.0
"""Seconds for which other tasks may end, or ask too, once a person is asked: the run of AG-UI ends with questions."""

_ENCODER: Final = EventEncoder()


def frames(events: Sequence[BaseEvent], seq: int = 0) -> bytes:
    """Returns events as server-sent ones. The last one has the number of the run's event that they follow from as its
    id: with it a front end resumes the stream."""
    texts = [_ENCODER.encode(event) for event in events]
    if texts and seq:
        texts[-1] = f"id: {seq}\n{texts[-1]}"
    return "".join(texts).encode("utf-8", "replace")


def error_frame(error: ArchonError) -> bytes:
    """Returns an error as the last event of a stream."""
    metadata = {"dev.archon/code": error.code, **({"dev.archon/retry": error.retry_delay} if error.retry_delay else {})}
    return frames([RunErrorEvent(message=str(error), code=error.reason, metadata=metadata)])


class RunStream:
    """The stream of the front end that sent `source`, about `part` of a run. It ends at once when `stop` is set; the
    run goes on. Events up to the number `after` are left out."""

    def __init__(self, client: Client, source: RunAgentInput, part: RunPart, stop: asyncio.Event, after: int) -> None:
        self._client, self._part, self._run, self._stop = client, part, part.run, stop
        self._fold = RunFold(source, part.run, resumed=part.resumed, after=after)
        self._questions: list[RunQuestion] = []
        self.complete = False
        """Whether the stream has come to its end, and not the front end closed it."""

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """Yields the stream. Whatever fails is its last event."""
        yield first_frame()
        try:
            yield frames(self._fold.opening())
            async with aclosing(self._rest()) as rest:
                async for piece in rest:
                    yield piece
        except Exception as raised:  # noqa: BLE001 - whatever it is, the front end gets a typed error
            yield error_frame(status.as_error(raised))
        self.complete = True

    async def _rest(self) -> AsyncGenerator[bytes, None]:
        async with aclosing(self._client.watch(self._run.run_id)) as events, aclosing(self._paced(events)) as paced:
            is_answered = not self._part.answers
            async for event in paced:
                if not is_answered:  # the run is watched now
                    is_answered = True
                    await give(self._client, self._run, self._part.answers)
                if event is None:
                    yield HEARTBEAT
                    continue
                if made := self._fold.apply(event):
                    yield frames(made, event.seq)
        if self._questions:
            yield frames(self._fold.interrupted(self._questions), self._fold.view.last_seq)
        else:
            run = await self._client.get(self._run.run_id)
            yield frames(self._fold.ended(run.answers), self._fold.view.last_seq)

    async def _paced(self, events: AsyncGenerator[RunEvent, None]) -> AsyncGenerator[RunEvent | None, None]:
        """Yields the events until people are asked and nothing else goes on, or SETTLE seconds after they were; None
        after SILENCE seconds without one. Raises Unavailable once the gateway stops."""
        loop = asyncio.get_running_loop()
        stopping = asyncio.create_task(self._stop.wait(), name="stop of a stream")
        reading: asyncio.Task[RunEvent | None] | None = None
        settled, answered = 0.0, False
        try:
            while True:
                reading = reading or asyncio.create_task(_next(events), name="next event of a run")
                settled = (settled or loop.time() + SETTLE) if self._fold.asks else 0.0
                limit = min(SILENCE, max(0.0, settled - loop.time())) if settled else SILENCE
                if settled and self._fold.is_idle and not answered:
                    limit = 0.0
                await asyncio.wait({reading, stopping}, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
                if stopping.done():
                    raise Unavailable("the HTTP gateway is stopping: send the input again, the run goes on")
                if reading.done():
                    event, reading, answered = reading.result(), None, False
                    if event is None:
                        return
                    yield event
                elif settled and ((self._fold.is_idle and not answered) or loop.time() >= settled):
                    if await self._still_asks():
                        return
                    answered, settled = True, loop.time() + SETTLE  # the event of the answer is still to come
                else:
                    yield None
        finally:
            for task in (stopping, reading):
                if task is not None:
                    task.cancel()
            await asyncio.wait({task for task in (stopping, reading) if task is not None})

    async def _still_asks(self) -> bool:
        """Whether a question is open now, that may have been answered in the meantime."""
        open_now = (await self._client.get(self._run.run_id)).questions
        self._questions = [question for question in open_now if question.input_id not in self._part.resumed]
        return bool(self._questions)


async def _next(events: AsyncGenerator[RunEvent, None]) -> RunEvent | None:
    """Returns the next event; None after the last one."""
    return await anext(events, None)
