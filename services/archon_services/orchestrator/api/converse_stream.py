"""The Converse stream: many runs on one stream, commands one way, replies and batches of events the other. A failure
that concerns one run is answered in place.

Bounds: the number of streams; the number of runs that are followed; the number of commands that are being executed or
whose reply waits to be sent, and the bytes of such replies. Events wait in each run's tail, which is bounded. So a
caller that does not read delays only itself.

A run that was just submitted is followed through its tail alone: no task, no read of the journal. If the tail falls
behind, or another replica takes over the run, the run is followed like any other watch.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Coroutine
from contextlib import aclosing
from types import TracebackType
from typing import Any, Final

from archon import status
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.errors import ArchonError, InvalidArgument, ResourceExhausted, Unavailable
from archon_services.orchestrator.api.commands import Commands
from archon_services.orchestrator.convert.run_view import trimmed
from archon_services.orchestrator.journal.framing import as_field, frame
from archon_services.orchestrator.watch.hub import Tail, WatchHub

MAX_RUNS: Final = 1_000
MAX_COMMANDS: Final = 256
MAX_STREAMS: Final = 1_000
REPLIES_BYTES: Final = 1024 * 1024
"""Bytes of replies that wait to be sent above which the run in a further reply is truncated."""

MIN_REPLY: Final = 4_096
"""A run of at most so many bytes is sent whole."""

SOFT_BYTES: Final = 1024 * 1024
"""A response takes nothing more above this size."""

EVENTS_FIELD: Final = 2
"""ConverseResponse.events; replies are field 1."""


class ConverseStream:
    """Ends when the caller has sent its last command and every run that is followed has ended."""

    def __init__(self, commands: Commands, hub: WatchHub, requests: AsyncIterator[pb.ConverseRequest]) -> None:
        self._commands = commands
        self._hub = hub
        self._requests = requests
        self._replies: deque[tuple[bytes, bool]] = deque()
        """Replies to send, and whether each answers a command."""

        self._reply_bytes = 0

        self._tails: dict[str, Tail] = {}
        self._dirty: dict[str, Tail] = {}
        """Tails that have something to take."""

        self._batches: deque[tuple[bytes, asyncio.Event]] = deque()
        """Batches of followed runs without a tail, and the event that says that it was sent."""

        self._news = asyncio.Event()
        self._room = asyncio.Semaphore(MAX_COMMANDS)
        self._followed: set[str] = set()
        self._joining = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._failed: BaseException | None = None

    async def __aenter__(self) -> ConverseStream:
        """Raises ResourceExhausted if too many streams are open."""
        if self._hub.streams >= MAX_STREAMS:
            raise ResourceExhausted(f"{MAX_STREAMS:,} Converse streams are open here", retry_delay=1.0)
        self._hub.streams += 1
        self._spawn(self._read())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._hub.streams -= 1
        for tail in self._tails.values():
            self._hub.detach(tail)
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=2.0)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._failed = self._failed or task.exception()
        self._news.set()

    async def next(self) -> bytes | None:
        """Returns the next serialised ConverseResponse, None after the last. Raises the error that ended the stream."""
        while True:
            while not self._replies and not self._batches and not self._dirty:
                if self._failed is not None:
                    raise self._failed
                if not self._tasks and not self._tails:
                    return None
                self._news.clear()
                await self._news.wait()
            if response := self._response():
                return response

    def _response(self) -> bytes:
        parts: list[bytes] = []
        size = 0
        while self._replies and size < SOFT_BYTES:
            reply, is_answer = self._replies.popleft()
            parts.append(frame(reply))
            self._reply_bytes -= len(reply)
            size += len(parts[-1])
            if is_answer:
                self._room.release()
        while self._batches and size < SOFT_BYTES:
            data, sent = self._batches.popleft()
            parts.append(as_field(data, EVENTS_FIELD))
            size += len(data)
            sent.set()
        while self._dirty and size < SOFT_BYTES:
            size += self._drain(next(iter(self._dirty.values())), parts, SOFT_BYTES - size)
        return b"".join(parts)

    def _drain(self, tail: Tail, parts: list[bytes], room: int) -> int:
        """Takes about `room` bytes of a tail's batches. Returns how many bytes."""
        taken = 0
        while taken < room:
            batch = tail.take()
            if batch is None:
                del self._dirty[tail.run_id]
                if tail.behind:
                    self._follow_from(tail)
                break
            parts.append(as_field(batch.data, EVENTS_FIELD))
            taken += len(batch.data)
            if batch.final:
                self._dirty.pop(tail.run_id, None)
                self._drop(tail)
                break
        return taken

    def _follow_from(self, tail: Tail) -> None:
        """Goes on with a run whose tail has fallen behind, from its cursor."""
        self._drop(tail)
        self._spawn(self._follow(pb.WatchRunRequest(run_id=tail.run_id, after_seq=tail.cursor)))

    def _drop(self, tail: Tail) -> None:
        self._hub.detach(tail)
        self._tails.pop(tail.run_id, None)
        self._followed.discard(tail.run_id)

    def _has_news(self, tail: Tail) -> None:
        if tail.run_id in self._tails:
            self._dirty[tail.run_id] = tail
            self._news.set()

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
            follow = await self._execute(request, reply)
        except Exception as error:  # noqa: BLE001 - the failure of this command and of no other
            reply.failure.CopyFrom(status.to_failure(status.as_error(error)))
        finally:
            self._joining -= joins
        self._reply(reply, is_answer=True)
        if follow is not None:
            await self._follow(follow)

    def _reply(self, reply: pb.ConverseReply, *, is_answer: bool) -> None:
        data, room = reply.SerializeToString(), max(MIN_REPLY, REPLIES_BYTES - self._reply_bytes)
        if len(data) > room and reply.HasField("run"):
            reply.run.CopyFrom(trimmed(reply.run, room))
            data = reply.SerializeToString()
        self._reply_bytes += len(data)
        self._replies.append((data, is_answer))
        self._news.set()

    async def _execute(self, request: pb.ConverseRequest, reply: pb.ConverseReply) -> pb.WatchRunRequest | None:
        """Executes a command and fills in its reply. Returns the watch to follow from here on."""
        match request.WhichOneof("command"):
            case "submit":
                self._check_room()
                return await self._submit(request.submit, reply)
            case "watch":
                self._check_room()
                reply.run.CopyFrom(await self._commands.run(request.watch.run_id))
                return request.watch
            case "cancel":
                row = await self._commands.row(request.cancel.run_id)
                await self._commands.control.cancel(row, request.cancel.reason)
                reply.run.CopyFrom(await self._commands.run(request.cancel.run_id))
                return None
            case "respond":
                row = await self._commands.row(request.respond.run_id)
                await self._commands.control.respond(row, request.respond)
                reply.run.CopyFrom(await self._commands.run(request.respond.run_id))
                return None
        raise InvalidArgument("the message has no command that this orchestrator knows")

    async def _submit(self, request: pb.SubmitRunRequest, reply: pb.ConverseReply) -> pb.WatchRunRequest | None:
        tails: list[Tail] = []
        try:
            run_id, created = await self._commands.submit(
                request, attach=lambda run_id: tails.append(self._hub.attach(run_id, 0, self._has_news))
            )
            reply.run.CopyFrom(await self._commands.run(run_id))
        except BaseException:
            for attached in tails:
                self._hub.detach(attached)
            raise
        tail = tails[0] if tails else None
        if not created or tail is None or tail.behind or not self._commands.drives(run_id, tail):
            if tail is not None:
                self._hub.detach(tail)
            return pb.WatchRunRequest(run_id=run_id)
        self._tails[run_id] = tail
        self._followed.add(run_id)
        if tail.queue:
            self._dirty[run_id] = tail
        return None

    def _check_room(self) -> None:
        if len(self._followed) + self._joining > MAX_RUNS:
            raise ResourceExhausted(f"{MAX_RUNS} runs are followed on this stream", retry_delay=1.0)

    async def _follow(self, request: pb.WatchRunRequest) -> None:
        """Follows a run as a watch does. Each batch waits until it is sent; later batches wait in the run's tail, which
        is bounded."""
        if request.run_id in self._followed:
            return
        self._followed.add(request.run_id)
        sent = asyncio.Event()
        try:
            async with aclosing(self._commands.watch(request)) as batches:
                async for data in batches:
                    if not data:
                        continue
                    sent.clear()
                    self._batches.append((data, sent))
                    self._news.set()
                    await sent.wait()
        except Unavailable:
            raise  # the orchestrator stops: the whole stream ends, and resumes elsewhere
        except ArchonError as error:
            failure = status.to_failure(error)
            failure.metadata["run_id"] = request.run_id
            self._reply(pb.ConverseReply(failure=failure), is_answer=False)
        finally:
            self._followed.discard(request.run_id)
