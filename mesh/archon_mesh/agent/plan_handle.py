"""The handle of a plan that an agent of this process executes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, Self

from typing_extensions import TypeVar

from archon.errors import FailedPrecondition, OperationCancelled
from archon_mesh.agent.planned_run import PlannedRun
from archon_mesh.core.people import Decision
from archon_mesh.engine.plan import Task
from archon_mesh.engine.types import Amount
from archon_mesh.planning.parse import parse_plan
from archon_mesh.planning.plan_question import PlanQuestion
from archon_mesh.planning.task_outcome import TaskOutcome

Out = TypeVar("Out", default=Any)


class PlanHandle(Generic[Out]):
    """A plan under way, which `Agent.plan` has started. Await it, or `result`, for the answer. Use it as an async
    context manager to stop the plan at the end of the block; the agent stops it when it is closed."""

    def __init__(
        self, run: PlannedRun, execute: Callable[[], Coroutine[Any, Any, Out]], ended: Callable[[Self], None]
    ) -> None:
        self._run = run
        self._execution = asyncio.create_task(execute(), name="plan of an agent")
        self._execution.add_done_callback(lambda _: ended(self))

    async def result(self, timeout: float | None = None) -> Out:
        """Returns the answer. The plan goes on if the caller is cancelled, or `timeout` (seconds) passes: TimeoutError.

        Raises the errors of `Agent.run_task`, ApprovalRejected, QuestionTimedOut, BudgetExhausted if the rest of the
        budget is too small, DeadlineExceeded if its time is over, and OperationCancelled after `cancel`.
        """
        async with asyncio.timeout(timeout):
            await asyncio.wait([self._execution])
        if self._execution.cancelled():
            raise OperationCancelled("the plan was cancelled")
        return self._execution.result()

    def __await__(self) -> Generator[Any, None, Out]:
        return self.result().__await__()

    @property
    def done(self) -> bool:
        """Whether the plan has ended."""
        return self._execution.done()

    @property
    def task(self) -> Task | None:
        """The plan as it is now; None before there is one."""
        return self._run.executor.task if self._run.executor is not None else None

    @property
    def outcome(self) -> TaskOutcome | None:
        """How the query was answered; None until then."""
        return self._run.outcome

    @property
    def spent(self) -> Amount:
        """The tokens, the cost in millionths of a US dollar, and the model calls that ended attempts have spent, if the
        budget limits one of them."""
        return self._run.executor.spent if self._run.executor is not None else Amount()

    def questions(self) -> list[PlanQuestion]:
        """Returns the open questions to people."""
        return self._run.executor.questions() if self._run.executor is not None else []

    def respond(
        self,
        question: PlanQuestion | str,
        answer: Any = "",
        *,
        decision: Decision | str | None = None,
        identity: str = "",
    ) -> None:
        """Answers a question, or the one with this id; as `PlanExecutor.respond`, whose errors it raises."""
        if self._run.executor is None:
            raise FailedPrecondition("the plan has no question yet")
        question_id = question if isinstance(question, str) else question.id
        self._run.executor.respond(question_id, answer, decision=decision, identity=identity)

    def pause(self) -> None:
        """Starts no further step until `resume`; steps in progress go on. A journal keeps the pause."""
        self._run.pause()

    def resume(self) -> None:
        """Starts steps again after `pause`."""
        self._run.resume()

    def edit(self, plan: Task | str) -> None:
        """Replaces the steps that have not begun by the ones of a plan, or of its JSON text. Raises the errors of
        `PlanExecutor.edit`, and MalformedPlan if a text is no plan."""
        if self._run.executor is None or (task := self._run.executor.task) is None:
            raise FailedPrecondition("no plan is being executed")
        self._run.executor.edit(parse_plan(plan, task.original_query, task.id) if isinstance(plan, str) else plan)

    def cancel(self) -> None:
        """Stops the plan and the steps in progress. With a journal, a later call goes on with it. Idempotent."""
        self._execution.cancel()

    async def close(self) -> None:
        """Cancels the plan, and returns when its steps have ended. Idempotent."""
        self.cancel()
        await asyncio.wait([self._execution])
        if not self._execution.cancelled():
            self._execution.exception()  # the caller has not asked for the result: it is no error of its own

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
