"""Many runs on one stream: commands one way, batches of events the other. What concerns one run is answered in place.

Bounds: so many runs are followed, and so many commands are under way or wait for their answer to be sent, at once; of
the events that wait each run has one batch. So a caller who doesn't read holds itself back and nobody else.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import aclosing
from types import TracebackType
from typing import Final

from archon import status
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.api.orchestrator.v1 import run_pb2
from archon.errors import ArchonError, InvalidArgument, ResourceExhausted, Unavailable
from archon_services.orchestrator.api.commands import Commands
from archon_services.orchestrator.api.run_size import bounded

MAX_RUNS: Final = 1_000
MAX_COMMANDS: Final = 256
MAX_EVENTS: Final = 500
SOFT_BYTES: Final = 1024 * 1024
"""A response takes nothing more above it."""


class ConverseStream:
    """Ends when the caller has said everything and every run that is followed has ended."""

    def __init__(self, commands: Commands, requests: AsyncIterator[pb.ConverseRequest]) -> None:
        self._commands = commands
        self._requests = requests
        self._replies: deque[tuple[pb.ConverseReply, bool]] = deque()
        """What is to be said, and whether it answers a command."""
        self._batches: deque[tuple[list[run_pb2.RunEvent], asyncio.Event]] = deque()
        self._ready = asyncio.Event()
        self._room = asyncio.Semaphore(MAX_COMMANDS)
        self._followed: set[str] = set()
        self._joining = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._failed: BaseException | None = None

    async def __aenter__(self) -> ConverseStream:
        self._spawn(self._read())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=2.0)

    def _spawn(self, work: object) -> None:
        task: asyncio.Task[None] = asyncio.create_task(work)  # type: ignore[arg-type]
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._failed = self._failed or task.exception()
        self._ready.set()

    async def next(self) -> pb.ConverseResponse | None:
        """What is to be sent next; None after the last."""
        while not self._replies and not self._batches:
            if self._failed is not None:
                raise self._failed
            if not self._tasks:
                return None
            self._ready.clear()
            await self._ready.wait()
        response, size = pb.ConverseResponse(), 0
        while self._replies and size < SOFT_BYTES:
            reply, is_answer = self._replies.popleft()
            response.replies.append(reply)
            size += reply.ByteSize()
            if is_answer:
                self._room.release()
        while self._batches and len(response.events) < MAX_EVENTS and size < SOFT_BYTES:
            events, taken = self._batches.popleft()
            response.events.extend(events)
            size += sum(event.ByteSize() for event in events)
            taken.set()
        return response

    async def _read(self) -> None:
        async for request in self._requests:
            await self._room.acquire()
            self._spawn(self._command(request))

    async def _command(self, request: pb.ConverseRequest) -> None:
        reply = pb.ConverseReply(correlation_id=request.correlation_id)
        follow: pb.WatchRunRequest | None = None
        joins = request.WhichOneof("command") in ("submit", "watch")
        self._joining += joins
        try:
            follow = await self._carry_out(request, reply)
        except Exception as error:  # noqa: BLE001 - it is this command's failure, and no other's
            reply.failure.CopyFrom(status.to_failure(status.as_error(error)))
        finally:
            self._joining -= joins
        self._replies.append((reply, True))
        self._ready.set()
        if follow is not None:
            await self._follow(follow)

    async def _carry_out(self, request: pb.ConverseRequest, reply: pb.ConverseReply) -> pb.WatchRunRequest | None:
        """Fills in the reply; what is to be followed now."""
        match request.WhichOneof("command"):
            case "submit":
                self._check_room()
                run_id, _ = await self._commands.submit(request.submit)
                reply.run.CopyFrom(bounded(await self._commands.run(run_id)))
                return pb.WatchRunRequest(run_id=run_id)
            case "watch":
                self._check_room()
                reply.run.CopyFrom(bounded(await self._commands.run(request.watch.run_id)))
                return request.watch
            case "cancel":
                row = await self._commands.row(request.cancel.run_id)
                await self._commands.orders.cancel(row, request.cancel.reason)
                reply.run.CopyFrom(bounded(await self._commands.run(request.cancel.run_id)))
                return None
            case "respond":
                row = await self._commands.row(request.respond.run_id)
                await self._commands.orders.respond(row, request.respond)
                reply.run.CopyFrom(bounded(await self._commands.run(request.respond.run_id)))
                return None
        raise InvalidArgument("the message has no command that this orchestrator knows")

    def _check_room(self) -> None:
        if len(self._followed) + self._joining > MAX_RUNS:
            raise ResourceExhausted(f"{MAX_RUNS} runs are followed on this stream", retry_delay=1.0)

    async def _follow(self, request: pb.WatchRunRequest) -> None:
        """Each batch waits until it is taken: what comes meanwhile waits in the run's watcher, which is bounded."""
        if request.run_id in self._followed:
            return
        self._followed.add(request.run_id)
        taken = asyncio.Event()
        try:
            async with aclosing(self._commands.watch(request)) as batches:
                async for events in batches:
                    if not events:
                        continue
                    taken.clear()
                    self._batches.append((events, taken))
                    self._ready.set()
                    await taken.wait()
        except Unavailable:
            raise  # the orchestrator is going: the whole stream ends, and resumes elsewhere
        except ArchonError as error:
            failure = status.to_failure(error)
            failure.metadata["run_id"] = request.run_id
            self._replies.append((pb.ConverseReply(failure=failure), False))
        finally:
            self._followed.discard(request.run_id)
