"""FakeAgent: a real AgentServer that plays a script.

async with FakeAgent("translator", ["Bonjour", Delayed(0.1, "Salut"), InvalidArgument("no text")]) as agent:
    ...  # let something send tasks to agent.address
"""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from archon.agent import AgentServer, AgentSettings, Answer, Question, TaskContext
from archon.errors import ArchonError, FailedPrecondition
from archon.registry import Capability, DependsOn


@dataclass(frozen=True, slots=True)
class Delayed:
    """A reply that is sent after `seconds`."""

    seconds: float
    reply: Reply = ""


Reply = str | Answer | Question | BaseException | Delayed | Callable[[TaskContext], Any]
"""The reply to a task: a text, an Answer, a Question to a person, an exception to raise, one of these after a delay, or
a function or coroutine function of the task that returns one."""


class FakeAgent:
    """Answers the first task with the first reply, the second with the second, and so on; a task beyond them fails with
    FailedPrecondition / SCRIPT_EXHAUSTED. Leaving the block with replies unused raises AssertionError that names them.

    It listens on a free port of 127.0.0.1 and reads nothing from the environment; with `registry` (host:port) it
    registers. `settings`, such as `mesh.agent_settings()`, take the place of `registry` and `ttl`. `tasks` are the
    tasks that it received, in order.
    """

    def __init__(
        self,
        role: str = "fake",
        replies: Iterable[Reply] = (),
        *,
        registry: str = "",
        capabilities: Sequence[Capability] = (),
        depends_on: Sequence[DependsOn | str] = (),
        max_tasks: int = 8,
        ttl: float = 10.0,
        settings: AgentSettings | None = None,
    ) -> None:
        self.tasks: list[TaskContext] = []
        self._replies: deque[Reply] = deque(replies)
        self.server = AgentServer(
            role,
            description="a scripted agent",
            capabilities=capabilities,
            depends_on=depends_on,
            max_tasks=max_tasks,
            handler=self.handler,
            settings=settings or AgentSettings(registry=registry, ttl=ttl),
        )

    @property
    def role(self) -> str:
        """The role that the agent serves."""
        return self.server.role

    @property
    def address(self) -> str:
        """host:port; empty outside the block."""
        return self.server.address

    @property
    def instance_id(self) -> str:
        """The instance id that an Open must name."""
        return self.server.instance_id

    @property
    def unused(self) -> tuple[Reply, ...]:
        """The replies that no task has received yet."""
        return tuple(self._replies)

    def then(self, *replies: Reply) -> FakeAgent:
        """Adds replies to the script."""
        self._replies.extend(replies)
        return self

    async def handler(self, task: TaskContext) -> object:
        """Plays the script; it can be the handler of another AgentServer, too."""
        self.tasks.append(task)
        if not self._replies:
            raise FailedPrecondition(
                f"the script of {self.role} has no reply left for task {task.task_id} (number {len(self.tasks)})",
                reason="SCRIPT_EXHAUSTED",
                metadata={"role": self.role, "task_id": task.task_id},
            )
        return await _play(self._replies.popleft(), task)

    def check_used_up(self) -> None:
        """Raises AssertionError if replies are left."""
        if self._replies:
            left = "; ".join(_shown(reply) for reply in self._replies)
            raise AssertionError(f"{len(self._replies)} replies of {self.role} were never used: {left}")

    async def __aenter__(self) -> FakeAgent:
        await self.server.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.server.stop(0.0)
        if error is None:
            self.check_used_up()


async def _play(reply: Reply, task: TaskContext) -> object:
    while isinstance(reply, Delayed):
        await asyncio.sleep(reply.seconds)
        reply = reply.reply
    if isinstance(reply, BaseException):
        raise reply
    if not isinstance(reply, (str, Answer, Question)):
        answer = reply(task)
        return await answer if inspect.isawaitable(answer) else answer
    return reply


def _shown(reply: Reply) -> str:
    if isinstance(reply, ArchonError):
        return f"{type(reply).__name__}({str(reply)!r})"
    text = repr(reply)
    return text if len(text) <= 80 else f"{text[:77]}..."
