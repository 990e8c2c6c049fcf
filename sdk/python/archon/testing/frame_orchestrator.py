"""FrameOrchestrator: the orchestrator's end of an agent's session, driven frame by frame."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final

import grpc.aio

from archon import status
from archon.api.agent.v1 import agent_pb2, agent_service_pb2, agent_service_pb2_grpc, session_pb2
from archon.api.common.v1 import common_pb2
from archon.channel import agent_options
from archon.errors import ArchonError
from archon.frames import FEATURES
from archon.interceptors.stream_status import StreamStatus
from archon.wire import set_seconds

MAX_FRAMES: Final = 100_000
METHOD: Final = "/archon.api.agent.v1.AgentService/Session"


class FrameOrchestrator:
    """One stream to the agent at `address`, open during the block. It sends only the frames that the test sends: no
    heartbeats, no acks, no resends.

    `frames` are all received frames, in order; it stops reading after MAX_FRAMES. Methods that wait do so for at most
    `timeout` seconds and then raise AssertionError with the frames that came instead.
    """

    def __init__(self, address: str, *, orchestrator_id: str = "orchestrator-1", timeout: float = 5.0) -> None:
        self.orchestrator_id = orchestrator_id
        self.timeout = timeout
        self.frames: list[session_pb2.AgentFrame] = []
        self.epoch = 1
        self._address = address
        self._taken: set[int] = set()
        self._sent: dict[tuple[str, int], int] = {}
        self._changed = asyncio.Event()
        self._over = False
        self._error: ArchonError | None = None

    async def __aenter__(self) -> FrameOrchestrator:
        self._channel = grpc.aio.insecure_channel(self._address, options=agent_options(fresh=True))
        self.stub = agent_service_pb2_grpc.AgentServiceStub(self._channel)
        self._call: Any = self._channel.stream_stream(
            METHOD, response_deserializer=agent_service_pb2.SessionResponse.FromString
        )()
        self._reader = asyncio.create_task(self._read(), name="frame-orchestrator")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.break_off()

    async def break_off(self) -> None:
        """Cancels the stream, as a broken connection does. Idempotent."""
        self._call.cancel()
        self._reader.cancel()
        await asyncio.wait([self._reader], timeout=self.timeout)
        await self._channel.close()

    # To the agent

    async def open(
        self, instance_id: str = "", *, protocol: int = 1, max_message_bytes: int = 0, park_ttl: float = 0.0
    ) -> session_pb2.Ready:
        """Sends Open and waits for Ready. Gets the instance_id from Describe if none is given."""
        await self.send(
            self.opening(
                instance_id or await self.instance_id(),
                protocol=protocol,
                max_message_bytes=max_message_bytes,
                park_ttl=park_ttl,
            )
        )
        return (await self.receive("ready")).ready

    async def instance_id(self) -> str:
        """The instance id of the agent at the address."""
        described = await self.stub.Describe(agent_service_pb2.DescribeRequest(), timeout=self.timeout)
        return described.registration.instance_id

    def opening(
        self, instance_id: str, *, protocol: int = 1, max_message_bytes: int = 0, park_ttl: float = 0.0
    ) -> session_pb2.OrchestratorFrame:
        """The Open frame."""
        open_frame = session_pb2.Open(
            orchestrator_id=self.orchestrator_id,
            instance_id=instance_id,
            protocol=protocol,
            features=FEATURES,
            max_message_bytes=max_message_bytes,
        )
        if park_ttl:
            set_seconds(open_frame.park_ttl, park_ttl)
        return session_pb2.OrchestratorFrame(open=open_frame)

    def ref(self, task_id: str, *, run_id: str = "run-1", attempt: int = 1) -> common_pb2.TaskRef:
        """A reference to an attempt, with the current `epoch`."""
        return common_pb2.TaskRef(task_id=task_id, run_id=run_id, attempt=attempt, epoch=self.epoch)

    def stamped(
        self, ref: common_pb2.TaskRef, frame: session_pb2.OrchestratorFrame, *, sequence: int | None = None
    ) -> session_pb2.OrchestratorFrame:
        """The frame with its task and the next sequence of the attempt, or with `sequence`."""
        key = (ref.task_id, ref.attempt)
        if sequence is None:
            sequence = self._sent[key] = self._sent.get(key, 0) + 1
        frame.task.CopyFrom(ref)
        frame.sequence = sequence
        return frame

    def assignment(
        self,
        ref: common_pb2.TaskRef,
        text: str = "",
        *,
        context: Sequence[tuple[str, str]] = (),
        remaining: float | None = None,
    ) -> session_pb2.OrchestratorFrame:
        """An AssignTask with a text, upstream answers as (role, text), and the remaining seconds."""
        task = agent_pb2.AssignTask(input=[common_pb2.Part(text=text)])
        for role, answer in context:
            item = task.context.add(parts=[common_pb2.Part(text=answer)])
            item.ref.role, item.ref.run_id = role, ref.run_id
        if remaining is not None:
            set_seconds(task.remaining, remaining)
        return self.stamped(ref, session_pb2.OrchestratorFrame(assign_task=task))

    def cancellation(self, ref: common_pb2.TaskRef) -> session_pb2.OrchestratorFrame:
        """A CancelTask frame for the attempt, with the next sequence number."""
        return self.stamped(ref, session_pb2.OrchestratorFrame(cancel_task=session_pb2.CancelTask(reason="enough")))

    def adoption(self, ref: common_pb2.TaskRef, *, last_applied: int = 0) -> session_pb2.OrchestratorFrame:
        """An AdoptTask, which has no sequence."""
        return session_pb2.OrchestratorFrame(task=ref, adopt_task=session_pb2.AdoptTask(last_applied=last_applied))

    def acknowledgement(self, ref: common_pb2.TaskRef, sequence: int) -> session_pb2.OrchestratorFrame:
        """A frame with an ack only."""
        return session_pb2.OrchestratorFrame(task=ref, ack=sequence)

    async def send(self, *frames: session_pb2.OrchestratorFrame) -> None:
        """Sends the frames in one message, unchanged."""
        await self.send_raw(agent_service_pb2.SessionRequest(frames=frames).SerializeToString())

    async def send_raw(self, message: bytes) -> None:
        """Sends any bytes as one message."""
        async with asyncio.timeout(self.timeout):
            await self._call.write(message)

    async def assign(self, ref: common_pb2.TaskRef, text: str = "", *, remaining: float | None = None) -> None:
        """Sends an AssignTask frame with a text; `remaining` is in seconds."""
        await self.send(self.assignment(ref, text, remaining=remaining))

    # From the agent

    async def receive(self, arm: str | None, ref: common_pb2.TaskRef | None = None) -> session_pb2.AgentFrame:
        """Waits for a frame with this arm (None for a frame without one), of this attempt if `ref` is given. Each frame
        is returned once; frames with other arms stay available."""
        try:
            async with asyncio.timeout(self.timeout):
                while True:
                    self._changed.clear()
                    for index, frame in enumerate(self.frames):
                        if index not in self._taken and frame.WhichOneof("frame") == arm and _about(frame, ref):
                            self._taken.add(index)
                            return frame
                    if self._over:
                        break
                    await self._changed.wait()
        except TimeoutError:
            pass
        came = [frame.WhichOneof("frame") or "ack" for frame in self.frames]
        ended = f", and the stream ended with {self._error!r}" if self._over else ""
        raise AssertionError(f"no frame {arm!r} came; there were {came}{ended}")

    async def result(self, ref: common_pb2.TaskRef) -> agent_pb2.TaskResult:
        """Waits for the result of the attempt, and acks it."""
        frame = await self.receive("result", ref)
        await self.send(self.acknowledgement(frame.task, frame.sequence))
        return frame.result

    async def ended(self) -> ArchonError | None:
        """Waits for the agent to end the stream. Returns the error, or None if it ended with OK."""
        async with asyncio.timeout(self.timeout):
            while not self._over:
                self._changed.clear()
                await self._changed.wait()
        return self._error

    async def _read(self) -> None:
        ended = StreamStatus(self._call)
        try:
            async for message in self._call:
                self.frames.extend(message.frames)
                self._changed.set()
                if len(self.frames) > MAX_FRAMES:
                    break
        except grpc.aio.AioRpcError as raised:
            error = await ended.error(raised)
            self._error = status.from_rpc_error(error) if error is not None else None
        finally:
            self._over = True
            self._changed.set()


def _about(frame: session_pb2.AgentFrame, ref: common_pb2.TaskRef | None) -> bool:
    return ref is None or (frame.task.task_id == ref.task_id and frame.task.attempt == ref.attempt)
