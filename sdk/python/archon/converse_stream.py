"""ConverseStream: many runs on one stream, commands one way, the events of all runs the other."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, Final, Unpack

import grpc.aio

from archon import status
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.api.orchestrator.v1 import orchestrator_service_pb2_grpc
from archon.errors import ArchonError, DeadlineExceeded, Unavailable
from archon.interceptors.stream_status import StreamStatus
from archon.submission import Goal, RunOptions, content, submit_request
from archon.types.run import Run
from archon.types.run_event import RunEvent

COMMAND_TIMEOUT: Final = 30.0
MAX_WAITING: Final = 10_000


class ConverseStream:
    """One Converse stream. Iterate over it for the events of all watched runs, in order per run, and send commands at
    the same time. It does not reconnect: if it breaks, `Client.watch` resumes each run after its last event."""

    def __init__(self, stub: orchestrator_service_pb2_grpc.OrchestratorServiceStub) -> None:
        self._stub: Any = stub
        self._commands: asyncio.Queue[pb.ConverseRequest | None] = asyncio.Queue(MAX_WAITING)
        self._events: asyncio.Queue[RunEvent | None] = asyncio.Queue(MAX_WAITING)
        self._answers: dict[str, asyncio.Future[Run]] = {}
        self._numbers = itertools.count(1)
        self._reader: asyncio.Task[None] | None = None
        self._error: ArchonError | None = None

    async def __aenter__(self) -> ConverseStream:
        self._reader = asyncio.create_task(self._read(), name="converse-stream")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.wait([self._reader], timeout=2.0)

    async def submit(self, goal: Goal, **options: Unpack[RunOptions]) -> Run:
        """Submits a run and watches it. The options and the errors are as in Client.submit."""
        return await self._command(pb.ConverseRequest(submit=submit_request(goal, **options)))

    async def watch(self, run_id: str, after_seq: int = 0) -> Run:
        """Watches an existing run. Raises UnknownRun."""
        return await self._command(pb.ConverseRequest(watch=pb.WatchRunRequest(run_id=run_id, after_seq=after_seq)))

    async def cancel(self, run_id: str, reason: str = "") -> Run:
        """Requests that a run be cancelled. Raises UnknownRun."""
        return await self._command(pb.ConverseRequest(cancel=pb.CancelRunRequest(run_id=run_id, reason=reason)))

    async def respond(self, run_id: str, input_id: str, answer: Goal, *, request_id: str = "") -> Run:
        """Answers a question of a run. Raises as Client.respond does."""
        parts = content(answer, "the answer")
        request = pb.RespondRequest(run_id=run_id, input_id=input_id, parts=parts, request_id=request_id)
        return await self._command(pb.ConverseRequest(respond=request))

    async def done(self) -> None:
        """Ends the commands: the stream ends after the last event of the watched runs."""
        await self._commands.put(None)

    def __aiter__(self) -> AsyncIterator[RunEvent]:
        return self

    async def __anext__(self) -> RunEvent:
        event = await self._events.get()
        if event is None:
            if self._error is not None:
                raise self._error
            raise StopAsyncIteration
        return event

    async def _command(self, request: pb.ConverseRequest) -> Run:
        if self._reader is None or self._reader.done():
            raise self._error or Unavailable("the Converse stream has ended")
        request.correlation_id = str(next(self._numbers))
        answer: asyncio.Future[Run] = asyncio.get_running_loop().create_future()
        self._answers[request.correlation_id] = answer
        try:
            async with asyncio.timeout(COMMAND_TIMEOUT):
                await self._commands.put(request)
                return await answer
        except TimeoutError as error:
            if isinstance(error, ArchonError):
                raise
            raise DeadlineExceeded(f"no answer within {COMMAND_TIMEOUT:g} s") from None
        finally:
            self._answers.pop(request.correlation_id, None)

    async def _requests(self) -> AsyncIterator[pb.ConverseRequest]:
        while (request := await self._commands.get()) is not None:
            yield request

    async def _read(self) -> None:
        call = self._stub.Converse(self._requests())
        ended = StreamStatus(call)
        try:
            async for response in call:
                for reply in response.replies:
                    self._answer(reply)
                for event in response.events:
                    await self._events.put(RunEvent(event))
        except grpc.aio.AioRpcError as raised:
            if (error := await ended.error(raised)) is not None:
                self._error = status.from_rpc_error(error)
        finally:
            call.cancel()
            self._end_commands()
            for answer in self._answers.values():
                if not answer.done():
                    answer.set_exception(self._error or Unavailable("the Converse stream has ended"))
            if self._events.full():
                self._events.get_nowait()  # the reader must see the end
            self._events.put_nowait(None)

    def _end_commands(self) -> None:
        """Ends the writer of the stream: grpc.aio leaves it behind if the server has ended the call."""
        while not self._commands.empty():
            self._commands.get_nowait()
        self._commands.put_nowait(None)

    def _answer(self, reply: pb.ConverseReply) -> None:
        answer = self._answers.get(reply.correlation_id)
        if answer is None or answer.done():
            return
        if reply.HasField("failure"):
            answer.set_exception(status.from_failure(reply.failure))
        else:
            answer.set_result(Run(reply.run))
