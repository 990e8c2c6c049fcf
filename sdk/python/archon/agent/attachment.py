"""Attaches an agent that cannot be dialled to an orchestrator: it opens the streams of its sessions itself.

Each stream begins with the registration and becomes a session when an orchestrator sends Open on it, or carries one
relayed call. One stream is always spare: when it is taken, the next one is opened on the same connection.
"""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
from collections.abc import AsyncIterator
from typing import Any, Final, Protocol

import grpc.aio

from archon import mesh_id, status
from archon.agent.relayed_calls import FEATURE, CallStream, RelayedCalls, call_in
from archon.agent.session import AgentSession
from archon.api.agent.v1 import attach_service_pb2, session_pb2
from archon.background import BackgroundLoop
from archon.channel import attach_options, connect
from archon.errors import ArchonError, PermissionDenied, Unauthenticated, Unavailable
from archon.interceptors.stream_status import StreamStatus
from archon.registry import Registration
from archon.registry.convert import registration_to_proto
from archon.registry.retry import is_transient

METHOD: Final = "/archon.api.agent.v1.AttachService/Attach"

TOKEN_KEY: Final = "archon-attach-token"
"""Metadata of Attach: a secret of this process, by which another orchestrator lets it take its registration along."""

MIN_PAUSE: Final = 0.1
MAX_PAUSE: Final = 5.0
"""Seconds between two streams after one that ended without Open, or after all were lost."""

ACCEPT_TIMEOUT: Final = 20.0
"""Seconds that an orchestrator has to register the agent."""

REFUSAL_DELAY: Final = 0.05
"""Seconds from the metadata of a stream until it counts as accepted: a refusal has metadata, too, and ends at once."""

OPEN_TIMEOUT: Final = 15.0
"""Seconds without a session after which the connection is given up: the orchestrator itself opens one at once."""

END_TIMEOUT: Final = 3.0
"""Seconds that the streams have to end when the agent stops: the orchestrator deregisters it first."""

_log = logging.getLogger(__name__)


class Attached(Protocol):
    """The part of the agent that an attachment uses."""

    @property
    def instance_id(self) -> str: ...

    @property
    def role(self) -> str: ...

    registration: Registration

    def stream_began(self) -> AgentSession: ...

    def stream_ended(self, session: AgentSession) -> None: ...


class _Stream:
    """One Attach stream; `opened` is set once it is a session, `ended` once it is over."""

    def __init__(self, agent: Attached, session: AgentSession, calls: RelayedCalls) -> None:
        self.session = session
        self.registration = agent.registration
        self.accepted = False
        self.error: ArchonError | None = None
        self.changed = asyncio.Event()
        self._agent = agent
        self._calls = calls
        self._call: CallStream | None = None
        session.attached = True
        session.on_open = self.changed.set

    @property
    def opened(self) -> bool:
        return bool(self.session.orchestrator_id)

    @property
    def taken(self) -> bool:
        """Whether it is a session, or carries a call."""
        return self.opened or self._call is not None

    async def serve(self, call: Any) -> None:
        """Reads until the stream ends; `error` says why."""
        ended = StreamStatus(call)
        self.session.on_stuck = call.cancel
        accepting: asyncio.TimerHandle | None = None
        try:
            async with asyncio.timeout(ACCEPT_TIMEOUT):
                await call.initial_metadata()
            accepting = asyncio.get_running_loop().call_later(REFUSAL_DELAY, self._accept, call)
            messages = self._messages(call, ended)
            if first := await anext(messages, b""):
                self._accept(call)
            if (relayed := call_in(first)) is not None:
                await self._serve_call(relayed, messages)
            else:
                await self.session.read(_prefixed(first, messages))
        except TimeoutError:
            self.error = self.error or Unavailable("the orchestrator did not answer in time")
        except Exception as broken:  # noqa: BLE001 - however a stream breaks, the agent attaches again
            self.error = self.error or Unavailable(f"the stream broke: {type(broken).__name__}")
        finally:
            if accepting is not None:
                accepting.cancel()
            self.session.queue.close()
            call.cancel()
            if self._call is None:
                self._agent.stream_ended(self.session)
            self.changed.set()

    def _accept(self, call: Any) -> None:
        """Notes that the orchestrator has registered the agent, unless the stream has ended."""
        self.accepted = not call.done()
        self.changed.set()

    async def _serve_call(self, relayed: attach_service_pb2.RelayedCall, messages: AsyncIterator[bytes]) -> None:
        """Serves a relayed call; the stream is no session."""
        self._call = CallStream()
        self._agent.stream_ended(self.session)
        self.session.queue.close()
        self.changed.set()
        await self._call.serve(self._calls, relayed, messages)

    async def _messages(self, call: Any, ended: StreamStatus) -> AsyncIterator[bytes]:
        try:
            async for message in call:
                yield message
        except grpc.aio.AioRpcError as raised:
            if (error := await ended.error(raised)) is not None:
                self.error = status.from_rpc_error(error)

    async def frames(self) -> AsyncIterator[bytes]:
        """Yields the messages for the orchestrator: the registration, then the session's messages."""
        agent = self._agent
        ready = session_pb2.Ready(
            instance_id=agent.instance_id,
            role=agent.role,
            features=[FEATURE],
            registration=registration_to_proto(self.registration),
        )
        yield attach_service_pb2.AttachRequest(frames=[session_pb2.AgentFrame(ready=ready)]).SerializeToString()
        queue = self.session.queue
        while message := await queue.batch():  # an AttachRequest has the form of a SessionResponse
            yield message
        if self._call is not None:
            async for message in self._call.messages():
                yield message
            return
        if (error := self.session.error) is not None:  # a client cannot end a stream with an error
            failure = session_pb2.AgentFrame(failure=status.to_failure(error))
            yield attach_service_pb2.AttachRequest(frames=[failure]).SerializeToString()


def _with_remedy(error: ArchonError, role: str) -> ArchonError:
    """Returns the error of a refused agent, with the credentials that it needs."""
    if isinstance(error, (PermissionDenied, Unauthenticated)):
        command = f"ARCHON_TOKEN=$(archon token --role {role})"
        error.message += f"; to attach, the agent needs a token or a certificate of its role: {command}"
    return error


async def _prefixed(first: bytes, more: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    if first:
        yield first
    async for message in more:
        yield message


class Attachment:
    """Keeps `agent` attached to the orchestrator at `target` (host:port, or a name with several replicas), which relays
    calls to `calls`."""

    def __init__(self, agent: Attached, target: str, calls: RelayedCalls) -> None:
        self.target = target
        self.error: ArchonError | None = None
        """Why the agent is not attached, or None."""
        self._agent = agent
        self._calls = calls
        self._token = secrets.token_urlsafe(24)
        self._tasks: dict[asyncio.Task[None], _Stream] = {}
        self._attached = asyncio.Event()
        self._tried = asyncio.Event()
        self._pause = MIN_PAUSE
        self._spare: _Stream | None = None
        self._closing = False
        self._loop = BackgroundLoop(f"attachment of {agent.instance_id}", self._run, backoff_max=MAX_PAUSE)

    async def start(self, timeout: float) -> None:
        """Attaches in the background; waits until an orchestrator has registered the agent, at most `timeout` seconds.
        Raises the errors with which it refuses the agent, such as PermissionDenied."""
        self._loop.start()
        try:
            async with asyncio.timeout(timeout):
                while not self._attached.is_set():
                    self._tried.clear()
                    await self._tried.wait()
                    if self.error is not None and not is_transient(self.error):
                        raise _with_remedy(self.error, self._agent.role)
        except TimeoutError:
            _log.warning("not attached to %s yet, trying again: %s", self.target, self.error or "no answer")

    async def close(self) -> None:
        """Ends the calls, then all streams after the frames that wait, by which the orchestrator deregisters the agent.
        Idempotent."""
        self._closing = True
        await self._calls.stop()
        for stream in self._tasks.values():
            stream.session.end()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=END_TIMEOUT)
        await self._loop.close()

    @property
    def registration(self) -> Registration:
        """The registration that the orchestrator has, or will have."""
        return self._agent.registration

    async def update(self, registration: Registration) -> None:
        """Registers other content, with the next stream that is opened."""
        self._agent.registration = registration
        if self._spare is not None:
            self._spare.changed.set()

    async def _run(self) -> None:
        while True:
            try:
                channel = connect(self.target, attach_options())
                try:
                    await self._keep(channel)
                finally:
                    await self._drop()
                    await channel.close()
            except ArchonError as error:
                self._failed(error)
            await self._wait()

    def _failed(self, error: ArchonError) -> None:
        """Keeps an error for `start`, and logs it unless it is the last one again."""
        if str(error) != str(self.error) and not self._closing:
            _log.log(
                logging.INFO if is_transient(error) else logging.WARNING,
                "%s is not attached to %s, trying again: %s",
                self._agent.instance_id,
                self.target,
                error,
            )
        self.error = error
        self._tried.set()

    async def _wait(self) -> None:
        await asyncio.sleep(self._pause * random.uniform(0.5, 1.0))
        self._pause = min(MAX_PAUSE, self._pause * 2)

    async def _drop(self) -> None:
        """Ends all streams at once; their attempts wait to be adopted."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=END_TIMEOUT)
        self._tasks.clear()
        self._attached.clear()

    async def _keep(self, channel: grpc.aio.Channel) -> None:
        """Keeps one stream spare, until all streams on the channel are lost. Raises the reason."""
        while True:
            spare, task = self._begin(channel)
            while not (spare.taken or task.done() or (spare.accepted and self._is_outdated(spare))):
                spare.changed.clear()
                try:
                    async with asyncio.timeout(OPEN_TIMEOUT):
                        await spare.changed.wait()
                except TimeoutError:
                    if not self._in_session(but=task):
                        raise Unavailable(f"no session was opened within {OPEN_TIMEOUT:g} s") from None
                if spare.accepted:
                    self.error = None
                    self._attached.set()
                    self._tried.set()
            if spare.taken or not task.done():
                self._pause = MIN_PAUSE
                continue
            error = spare.error or Unavailable("the orchestrator has ended the stream")
            if not self._in_session(but=task):
                raise error
            self._failed(error)
            await self._wait()

    def _is_outdated(self, spare: _Stream) -> bool:
        """Whether the registration has changed: the next stream brings the new one, and this one stays spare, too."""
        return spare.registration is not self._agent.registration

    def _in_session(self, *, but: asyncio.Task[None]) -> bool:
        return any(stream.opened and not task.done() for task, stream in self._tasks.items() if task is not but)

    def _begin(self, channel: grpc.aio.Channel) -> tuple[_Stream, asyncio.Task[None]]:
        stream = _Stream(self._agent, self._agent.stream_began(), self._calls)
        self._spare = stream
        method: Any = channel.stream_stream(METHOD)  # serialised messages, both ways
        call = method(stream.frames(), metadata=(*mesh_id.outgoing(), (TOKEN_KEY, self._token)))
        task = asyncio.create_task(stream.serve(call), name="attach")
        self._tasks[task] = stream
        task.add_done_callback(lambda done: self._tasks.pop(done, None))
        return stream, task
