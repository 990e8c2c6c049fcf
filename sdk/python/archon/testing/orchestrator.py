"""FakeOrchestrator: gives an agent tasks, as an orchestrator does, and answers its handler's requests.

async with FakeAgent("cook", [cook]) as agent, FakeOrchestrator(agent.address) as peer:
    await peer.open()
    task = peer.ref("task-1")
    await peer.assign(task, "Make lunch.")
    assert (await peer.result(task)).text == "Soup."
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING

from archon import status
from archon.agent import Question
from archon.agent.question import question_from_proto
from archon.api.agent.v1 import agent_pb2, session_pb2
from archon.api.common.v1 import common_pb2, question_pb2
from archon.errors import ArchonError
from archon.testing.frame_orchestrator import FrameOrchestrator
from archon.types.message import Message
from archon.types.part import Part, add_parts, to_parts
from archon.types.task_ref import TaskRef
from archon.types.task_state import TaskState
from archon.types.usage import Usage
from archon.wire import set_seconds, text_of

if TYPE_CHECKING:
    from google.protobuf.internal.containers import RepeatedCompositeFieldContainer

Content = str | Sequence[Part]


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The end of an attempt at a task: the answer, a failure, or a question to a person."""

    proto: agent_pb2.TaskResult

    @property
    def state(self) -> TaskState:
        """COMPLETED, FAILED, CANCELED, REJECTED or INPUT_REQUIRED."""
        return TaskState.from_proto(self.proto.state)

    @property
    def text(self) -> str:
        """The text of the answer."""
        return text_of(self.proto.output)

    @property
    def parts(self) -> tuple[Part, ...]:
        """All parts of the answer."""
        return to_parts(self.proto.output)

    @property
    def usage(self) -> Usage:
        """The tokens, model calls and cost that the agent reported for the attempt."""
        return Usage.from_proto(self.proto.usage)

    @property
    def error(self) -> ArchonError | None:
        """The failure, as the error that callers get; None if there is none."""
        return status.from_failure(self.proto.failure) if self.proto.HasField("failure") else None

    @property
    def question(self) -> Question | None:
        """The question with which the attempt has ended."""
        if not self.proto.HasField("input_request"):
            return None
        return question_from_proto(self.proto.input_request, self.proto.checkpoint)

    @property
    def metadata(self) -> dict[str, str]:
        """The metadata of the answer."""
        return dict(self.proto.metadata)


@dataclass(frozen=True, slots=True)
class Delegation:
    """A part of a task that its handler delegates to a role, or to any role with a capability."""

    delegation_id: str
    role: str
    capability: str
    text: str
    parts: tuple[Part, ...]


class FakeOrchestrator:
    """One stream to the agent at `address`, open during the block. It sends nothing by itself.

    Methods that wait do so for at most `timeout` seconds, then raise AssertionError with the frames that came instead.
    """

    def __init__(self, address: str, *, orchestrator_id: str = "orchestrator-1", timeout: float = 5.0) -> None:
        self._frames = FrameOrchestrator(address, orchestrator_id=orchestrator_id, timeout=timeout)
        self._delivered = 0

    async def __aenter__(self) -> FakeOrchestrator:
        await self._frames.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._frames.__aexit__(kind, error, trace)

    async def break_off(self) -> None:
        """Cancels the stream, as a broken connection does. Idempotent."""
        await self._frames.break_off()

    async def ended(self) -> ArchonError | None:
        """Waits for the agent to end the stream. Returns the error, or None if it ended with OK."""
        return await self._frames.ended()

    async def open(self, instance_id: str = "", *, park_ttl: float = 0.0) -> int:
        """Opens the session, with the agent at the address if there is no `instance_id`; the agent keeps results for
        `park_ttl` seconds without a session, or for its default time. Returns how many tasks it takes at a time."""
        return (await self._frames.open(instance_id, park_ttl=park_ttl)).max_tasks

    def ref(self, task_id: str, *, run_id: str = "run-1", attempt: int = 1) -> TaskRef:
        """Returns a reference to an attempt."""
        return TaskRef(task_id, run_id, attempt, self._frames.epoch)

    # To the agent

    async def assign(
        self,
        task: TaskRef,
        input: Content = "",
        *,
        context: Sequence[tuple[str, str]] = (),
        remaining: float | None = None,
    ) -> None:
        """Assigns a task with an input, upstream answers as (role, text), and the seconds that are left for it."""
        assigned = agent_pb2.AssignTask()
        _add(assigned.input, input)
        for role, answer in context:
            item = assigned.context.add(parts=[common_pb2.Part(text=answer)])
            item.ref.role, item.ref.run_id = role, task.run_id
        if remaining is not None:
            set_seconds(assigned.remaining, remaining)
        await self._send(task, session_pb2.OrchestratorFrame(assign_task=assigned))

    async def cancel(self, task: TaskRef, reason: str = "enough") -> None:
        """Sends CancelTask for an attempt. It does not wait for the end of the attempt."""
        await self._send(task, session_pb2.OrchestratorFrame(cancel_task=session_pb2.CancelTask(reason=reason)))

    async def answer(
        self, task: TaskRef, input_id: str, answer: Content, *, decision: str = "", identity: str = ""
    ) -> None:
        """Answers a question of `TaskContext.ask`. `decision` is that about an approval: approve, reject or modify."""
        number = question_pb2.Decision.Value(f"DECISION_{decision.upper() or 'UNSPECIFIED'}")
        given = session_pb2.Input(input_id=input_id, decision=number, identity=identity)
        _add(given.parts, answer)
        await self._send(task, session_pb2.OrchestratorFrame(input=given))

    async def complete(self, task: TaskRef, delegation_id: str, answer: Content | ArchonError) -> None:
        """Ends a delegation with an answer, or with an error."""
        result = session_pb2.DelegateResult(delegation_id=delegation_id)
        if isinstance(answer, ArchonError):
            result.result.state = common_pb2.TASK_STATE_FAILED
            result.result.failure.CopyFrom(status.to_failure(answer))
        else:
            result.result.state = common_pb2.TASK_STATE_COMPLETED
            _add(result.result.output, answer)
        await self._send(task, session_pb2.OrchestratorFrame(delegate_result=result))

    async def deliver(self, task: TaskRef, message: Message) -> None:
        """Delivers a message of another agent to an attempt that has subscribed to messages. One without a number
        (`Message.seq`) gets the next one."""
        self._delivered = max(self._delivered + 1, message.seq)
        numbered = replace(message, seq=message.seq or self._delivered)
        await self._send(task, session_pb2.OrchestratorFrame(message=numbered.proto))

    async def _send(self, task: TaskRef, frame: session_pb2.OrchestratorFrame) -> None:
        await self._frames.send(self._frames.stamped(task.proto, frame))

    # From the agent

    async def result(self, task: TaskRef) -> TaskResult:
        """Waits for the result of an attempt, and acks it."""
        return TaskResult(await self._frames.result(task.proto))

    async def question(self, task: TaskRef) -> Question:
        """Waits for the next question of `TaskContext.ask`."""
        return question_from_proto((await self._frames.receive("ask", task.proto)).ask)

    async def delegation(self, task: TaskRef) -> Delegation:
        """Waits for the next delegation."""
        asked = (await self._frames.receive("delegate", task.proto)).delegate
        text, parts = text_of(asked.input), to_parts(asked.input)
        return Delegation(asked.delegation_id, asked.role, asked.capability, text, parts)

    async def sent(self, task: TaskRef, *, refuse: ArchonError | None = None) -> Message:
        """Waits for the next message to other agents, and accepts it, or refuses it with an error."""
        message = (await self._frames.receive("send_message", task.proto)).send_message
        result = session_pb2.MessageResult(message_id=message.message_id)
        if refuse is not None:
            result.failure.CopyFrom(status.to_failure(refuse))
        else:
            self._delivered = result.seq = self._delivered + 1
        await self._send(task, session_pb2.OrchestratorFrame(message_result=result))
        return Message.from_proto(message)

    async def topics(self, task: TaskRef) -> tuple[str, ...]:
        """Waits for the next subscription to messages, and returns the topics that it adds."""
        return tuple((await self._frames.receive("subscribe", task.proto)).subscribe.topics)

    def written(self, task: TaskRef) -> str:
        """Returns the text that the handler has streamed so far."""
        own = (frame for frame in self._frames.frames if TaskRef.from_proto(frame.task) == task)
        return "".join(frame.progress.text for frame in own)


def _add(field: RepeatedCompositeFieldContainer[common_pb2.Part], content: Content) -> None:
    add_parts(field, [Part(text=content)] if isinstance(content, str) else content)
