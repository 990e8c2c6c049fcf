"""TaskContext: the task as its handler sees it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

from archon import context
from archon.agent.link import Link
from archon.agent.question import GivenAnswer, Question, answer_from_proto, question_to_proto
from archon.agent.reports import TaskReports
from archon.agent.shared import SharedConnection, SharedContext
from archon.agent.values import (
    Delegated,
    Item,
    checked_checkpoint,
    parts_of,
)
from archon.api.agent.v1 import agent_pb2, session_pb2
from archon.api.common.v1 import common_pb2
from archon.errors import ArchonError, FailedPrecondition, InvalidArgument, NoReceiver
from archon.status import from_failure
from archon.surrogates import without_surrogates
from archon.types.budget import Budget
from archon.types.part import Part, add_parts, to_parts
from archon.types.usage import Usage
from archon.wire import policy_to_proto, set_seconds, text_of, to_seconds

if TYPE_CHECKING:
    from archon.agent.facts import Facts
    from archon.agent.messenger import Messenger
    from archon.agent.work_list import WorkList
    from archon.types.message import Message
    from archon.types.message_content import InformationShare
    from archon.types.message_type import MessageType

MAX_WORK_LISTS = 16
"""Work lists that one task uses."""
LEAVE_SECONDS = 0.5
"""Seconds that a result waits until the items that the task holds are given back."""
MAX_INPUT_ID = 256


class TaskContext(TaskReports):
    """One attempt at one task: its assignment, and the handler's way to the orchestrator.

    The plain methods are cheap and never wait; a plain function may call them from its thread. The coroutines are for
    handlers that are coroutines.

    The server makes it, with `from_proto`. Values of the assignment are converted when they are read.
    """

    @classmethod
    def from_proto(
        cls,
        ref: common_pb2.TaskRef,
        assigned: agent_pb2.AssignTask,
        link: Link,
        *,
        role: str = "",
        stateful: bool = False,
    ) -> TaskContext:
        """Returns the context of an attempt: its assignment, and its way to its orchestrator."""
        task = cls.__new__(cls)
        task._begin(ref, assigned, link, role, stateful)
        return task

    def _begin(
        self,
        ref: common_pb2.TaskRef,
        assigned: agent_pb2.AssignTask,
        link: Link,
        role: str = "",
        stateful: bool = False,
    ) -> None:
        self._ref = ref
        self._assigned = assigned
        self._context = tuple(assigned.context)
        self._begin_reports(link)
        self._messenger_made: Messenger | None = None
        self._delegations = count(1)
        self._questions = count(1)
        self._stopped_with: float | None = None
        self._over = False
        self._shared_by: SharedConnection | None = None
        self._work: dict[str, WorkList] = {}
        self.role = role
        self.remembers = stateful and bool(assigned.conversation_id)
        """True if the role is stateful and the task belongs to a session: its answer extends the session history."""
        self.deadline: float | None = None
        """On the monotonic clock of this process, in seconds, or None if there is no limit."""
        if assigned.HasField("remaining"):
            self.deadline = time.monotonic() + to_seconds(assigned.remaining)

    # For the server: see `archon.agent.attempt` and `archon.agent.result`

    @property
    def _messenger(self) -> Messenger:
        """Made on first use: most tasks exchange no messages."""
        if self._messenger_made is None:
            from archon.agent.messenger import Messenger

            self._messenger_made = Messenger(self._link)
        return self._messenger_made

    @property
    def _messages_read(self) -> int:
        return self._messenger_made.inbox.read_seq if self._messenger_made is not None else 0

    def _update(self, items: Iterable[common_pb2.ContextItem]) -> None:
        """Adds newer answers to the context."""
        for item in items:
            source = item.ref.role, item.step_id
            known = [number for number, old in enumerate(self._context) if (old.ref.role, old.step_id) == source]
            place = known[0] if known else len(self._context)
            self._context = (*self._context[:place], item, *self._context[place + 1 :])

    # What the handler does

    def save(self, checkpoint: bytes) -> None:
        """Saves bytes from which a later attempt can resume, as its `checkpoint`; the newest one counts. Opaque to the
        mesh. Does nothing if the orchestrator does not support checkpoints. Raises FrameTooLarge above 1 MiB, or above
        the orchestrator's limit."""
        self._link.save(session_pb2.Checkpoint(data=checked_checkpoint(checkpoint)))

    def publish(self, item: Item | str) -> None:
        """Publishes an item before the answer, which replaces it: roles that depend on this one and work at the same
        time receive it at once. A string is an item for every edge.

        Raises InvalidArgument for an item without text, FrameTooLarge, Unimplemented if the orchestrator does not
        support it, ResourceExhausted if 8 MiB wait to be stored.
        """
        item = Item(item) if isinstance(item, str) else item
        parts = parts_of(item)
        if not text_of(parts).strip():
            raise InvalidArgument("an item to publish needs a text")
        self._link.publish(
            session_pb2.Publish(parts=parts, policy=policy_to_proto(item.policy), metadata=dict(item.metadata))
        )

    def remaining(self) -> float | None:
        """Seconds left for this task, or None if there is no limit or the task waits for a person."""
        if self.deadline is None or self._stopped_with is not None:
            return None
        return max(0.0, self.deadline - time.monotonic())

    def set_remaining(self, seconds: float) -> None:
        """Sets the time left, also while the clock stands still. The server calls it."""
        if self._stopped_with is not None:
            self._stopped_with = seconds
        else:
            self.deadline = time.monotonic() + seconds

    def stop_clock(self) -> None:
        """Stops the time of the task. The server calls it."""
        self._stopped_with = self.remaining()

    def start_clock(self) -> None:
        """The time of the task goes on. The server calls it."""
        if self._stopped_with is not None:
            self.deadline, self._stopped_with = time.monotonic() + self._stopped_with, None

    @property
    def is_over(self) -> bool:
        """Whether no attempt needs the result any more: the task was cancelled, or its time is over. A handler that is
        cancelled while this is False was stopped because another attempt goes on with the task, for example when its
        process drains: work that it has begun in other systems must go on."""
        return self._over

    @property
    def shared(self) -> SharedContext:
        """The values that the tasks of the run share, each with a version, by the memory service of the mesh.

        Raises FailedPrecondition if the agent has no memory service (ARCHON_MEMORY), or the task belongs to no run.
        """
        if self._shared_by is None or not self.run_id or self.run_id == self.task_id:
            raise FailedPrecondition("the task belongs to no run, and shares no values")
        return SharedContext(self._shared_by.values(self.run_id), self._share)

    async def _share(self, share: InformationShare, message_id: str) -> None:
        await self.send(share, message_id=message_id)

    def share_by(self, connection: SharedConnection) -> None:
        """Sets the connection to the memory service. The server calls it."""
        self._shared_by = connection

    @property
    def facts(self) -> Facts:
        """The facts that tasks of the run have established. An answer that is one JSON object is compared with the
        facts that its members name when the handler returns. Raises FailedPrecondition as `shared` does."""
        from archon.agent.facts import Facts

        return Facts(self, self.shared)

    def facts_at_hand(self) -> tuple[Facts, SharedConnection] | None:
        """Returns the facts and the connection to them, or None if they are not compared now. The server calls it."""
        connection, assigned = self._shared_by, self._assigned
        if connection is None or not self.run_id or self.run_id == self.task_id:
            return None
        if assigned.HasField("plan_request") or assigned.HasField("bid_request"):
            return None  # a plan and a bid state nothing about the subject of the run
        return (self.facts, connection) if connection.is_checked(time.monotonic()) else None

    def work(self, name: str = "work") -> WorkList:
        """Returns this task's view of a list of work that the tasks of the run share: each item is given to one task at
        a time. The list is made by its first `WorkList.add`. Items that the task still holds when its handler
        returns are given to others.

        Raises FailedPrecondition as `shared` does, and for more than 16 lists; InvalidArgument for a name that is not 1
        to 64 letters, digits, `_`, `.` and `-`.
        """
        from archon.agent.work_list import WorkList, work_scope

        if (known := self._work.get(name)) is not None:
            return known
        scope = work_scope(self.run_id, name)
        if self._shared_by is None or not self.run_id or self.run_id == self.task_id:
            raise FailedPrecondition("the task belongs to no run, and shares no work")
        if len(self._work) >= MAX_WORK_LISTS:
            raise FailedPrecondition(f"a task uses at most {MAX_WORK_LISTS} work lists")
        made = self._work[name] = WorkList(
            self._shared_by.values(scope), task_id=self.task_id, attempt=self.attempt, remaining=self.remaining
        )
        return made

    async def leave_work(self, *, give_back: bool) -> None:
        """Closes the work lists of the task. The server calls it. Never raises for an unreachable memory service."""
        lists, self._work = list(self._work.values()), {}
        if lists:
            with suppress(ArchonError, TimeoutError):
                async with asyncio.timeout(LEAVE_SECONDS):
                    await asyncio.gather(*(each.close(give_back=give_back) for each in lists))

    def end(self) -> None:
        """Notes that no attempt needs the result any more. The server calls it."""
        self._over = True

    async def ask(self, question: str | Sequence[Part], *, schema_json: str = "", input_id: str = "") -> str:
        """Asks a person and returns the text of the answer, while the attempt keeps its state and its slot. The time of
        the run and of this task stands still. For an answer that may take hours return a Question: it frees the slot.

        `schema_json` is a JSON Schema (2020-12) that the answer must match; empty means free text. The answer belongs
        to the task: a later attempt that asks with the same `input_id` gets it at once. By default that is the number
        of the question in the attempt.

        Raises InvalidArgument for an `input_id` above 256 characters, FrameTooLarge, Unimplemented if the caller of
        this task does not support questions.
        """
        text, parts = (question, ()) if isinstance(question, str) else ("", question)
        return (await self.ask_question(Question(text, schema_json, input_id=input_id, parts=parts))).text

    async def ask_question(self, question: Question) -> GivenAnswer:
        """Asks as `ask` does, with all that a Question has, and returns the answer with its decision. The checkpoint of
        the question is not used. Raises the errors of `ask`."""
        input_id = question.input_id
        if len(input_id) > MAX_INPUT_ID:
            raise InvalidArgument(f"the input_id of a question has {len(input_id)} characters, at most {MAX_INPUT_ID}")
        request = question_to_proto(question, input_id or f"a{next(self._questions)}")
        if (known := self.answers.get(request.input_id)) is not None:
            return known
        given = await self._link.ask(request)
        context.enter(replace(context.current(), deadline=self.deadline))
        return answer_from_proto(given)

    async def ask_secret(self, question: str | Sequence[Part]) -> str:
        """Asks a person for a secret, such as a credential, and returns it. The answer is encrypted for this attempt:
        the journal, records and watchers of the run do not have it. A later attempt asks again.

        Raises the errors of `ask`, and InvalidArgument if the answer was not encrypted for this question.
        """
        from archon.secret_answers import SecretQuestion

        secret = SecretQuestion()
        input_id = f"secret-{self.attempt}-{next(self._questions)}"
        return secret.open(await self.ask(question, schema_json=secret.schema_json, input_id=input_id))

    async def delegate(
        self,
        input: str | Sequence[Part],
        *,
        role: str = "",
        capability: str = "",
        memo_key: str = "",
        timeout: float | None = None,
        budget: Budget | None = None,
        checkpoint: bytes = b"",
    ) -> Delegated:
        """Delegates a part of this task to a role, or to any role with a capability; returns its answer. Concurrent
        delegations run in parallel. Cancelling the call cancels the delegated work.

        The mesh remembers the answer: a later attempt at this task that makes the same delegation gets it at once. Two
        delegations are the same if they have the same `memo_key` or, if that is empty, the same target and input for
        the n-th time. `timeout` is in seconds, 60 by default; `budget` limits the delegation's usage;
        `checkpoint` is saved with it, as by `save`.

        Raises the failure of the other role as the error that was raised there; UnknownRole, UnknownCapability,
        DelegationLoop, DelegationTooDeep, DelegationTimeout, TooManyDelegations, BudgetExhausted; FrameTooLarge;
        Unimplemented if the caller of this task does not support delegations.
        """
        if bool(role) == bool(capability):
            raise InvalidArgument("a delegation names either a role or a capability")
        delegation = session_pb2.Delegate(memo_key=memo_key, checkpoint=checked_checkpoint(checkpoint))
        if isinstance(input, str):
            delegation.input.add(text=without_surrogates(input))
        else:
            add_parts(delegation.input, input)
        delegation.delegation_id = f"d{next(self._delegations)}"
        if role:
            delegation.role = role
        else:
            delegation.capability = capability
        if timeout is not None:
            set_seconds(delegation.timeout, 0.0 if timeout < 0 else timeout)
        if budget is not None:
            delegation.budget.CopyFrom(budget.proto)
        traceparent, tracestate = context.trace()
        if traceparent:
            delegation.trace.traceparent, delegation.trace.tracestate = traceparent, tracestate
        elif self._assigned.HasField("trace"):
            delegation.trace.CopyFrom(self._assigned.trace)
        reply = await self._link.delegate(delegation)
        if reply.result.state != common_pb2.TASK_STATE_COMPLETED:
            raise from_failure(reply.result.failure)
        result = reply.result
        usage = Usage.from_proto(result.usage)
        return Delegated(text_of(result.output), to_parts(result.output), usage, reply.memoized, dict(result.metadata))

    async def send(
        self,
        content: object,
        to: str = "",
        *,
        type: MessageType | str | None = None,
        correlation_id: str = "",
        ttl: float | None = None,
        message_id: str = "",
    ) -> str:
        """Sends a message to agents of the run, and returns its id once the run's journal has it: it is delivered once
        to each attempt that reads it, also after a crash.

        `to` is a role, a step or a task (`Message.sender_task_id`); empty: all that have subscribed to `broadcast` or
        to `type:TYPE`. `content` is a text, a JSON value or a value such as `HelpRequest`, which has the `type`;
        without one the message is a notification. After `ttl` seconds it is not delivered any more. A later attempt of
        this task that sends the same message does not send it twice: two messages are the same if they have the same
        `message_id` or, if that is empty, the same receiver, type and content for the n-th time.

        Raises NoReceiver, MessageNotAllowed, TooManyMessages, InvalidArgument, and Unimplemented if the caller of this
        task does not support messages.
        """
        return await self._messenger.send(
            content, to, type, correlation_id=correlation_id, ttl=ttl, message_id=message_id
        )

    async def reply(self, message: Message, content: object, *, type: MessageType | str | None = None) -> str:
        """Answers a message; by default with a `task_response`. Raises the errors of `send`."""
        return await self._messenger.reply(message, content, type)

    def messages(self, *topics: str, after: int = 0, timeout: float | None = None) -> AsyncIterator[Message]:
        """Subscribes to the messages for this task, its step and its role, and to topics (`broadcast`, `type:TYPE`),
        and yields them in order, from the first of the run on: each attempt reads all of them, or those after number
        `after` (`Message.seq`). The iteration ends if no message comes for `timeout` seconds. Answers to `request` are
        not among them.

        Raises InvalidArgument for another topic, and Unimplemented if the caller does not support messages.
        """
        return self._messenger.messages(topics, after, timeout)

    async def request(
        self,
        content: object,
        to: str,
        *,
        type: MessageType | str | None = None,
        timeout: float = 60.0,
        message_id: str = "",
        checkpoint: bytes = b"",
    ) -> Message:
        """Sends a message, by default a `task_request`, and returns the answer. If no task of the receiver is reading
        messages, the request becomes a task of its own for the role `to`, as by `delegate`; `checkpoint` is saved with
        it. `timeout` is in seconds. A later attempt of this task that makes the same request, as in `send`, does not
        make it twice.

        Raises DeadlineExceeded if no answer comes in time, and the errors of `send` and `delegate`.
        """
        try:
            return await self._messenger.request(content, to, type, timeout, message_id)
        except NoReceiver:
            text = self._messenger.text_of(content)
            done = await self.delegate(text, role=to, memo_key=message_id, timeout=timeout, checkpoint=checkpoint)
        return self._messenger.answer_of(to, done)

    async def request_help(
        self,
        issue: str,
        target_role: str,
        *,
        timeout: float = 60.0,
        message_id: str = "",
        checkpoint: bytes = b"",
    ) -> Message:
        """Requests help with an issue of this task from a role, and returns the answer, as `request` does."""
        content = {"issue": issue, "task_id": self.task_id}
        return await self.request(
            content, target_role, type="help_request", timeout=timeout, message_id=message_id, checkpoint=checkpoint
        )
