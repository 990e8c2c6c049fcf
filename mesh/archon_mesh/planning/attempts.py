"""One attempt at a subtask: its execution and its result."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from archon.agent import WorkItem, WorkList
from archon.agent.local_values import LocalValues
from archon.errors import (
    ArchonError,
    BudgetExhausted,
    DeadlineExceeded,
    InvalidArgument,
    NotFound,
    OperationCancelled,
    PermissionDenied,
    Unauthenticated,
)
from archon.failure_kinds import RetryAdvice
from archon_mesh.engine.plan import ArgumentsTooLarge, MissingKey, SubTask, Task, fill_arguments, template_values
from archon_mesh.planning.check import CheckedResult, ResultCheck, check_by_rules
from archon_mesh.planning.exact import too_large, unfit_arguments
from archon_mesh.planning.subtask_prompt import subtask_message
from archon_mesh.planning.swarm import SwarmPart, goal_of, item_message, serve_list
from archon_mesh.planning.worker import Spending, Worker
from archon_mesh.tools.failures import failure_of, failure_of_kind
from archon_mesh.tools.output_limit import CUT
from archon_mesh.tools.person_time import work_time
from archon_mesh.tools.result import ToolOutcome, ToolResultStatus
from archon_mesh.tools.tool import Tool

MAX_ATTEMPTS: Final = 3
"""Attempts at one subtask."""

TIMEOUT: Final = 600.0
"""Seconds of one attempt."""

FATAL: Final = (OperationCancelled, BudgetExhausted)
"""Errors that end the whole plan, because no other step can be executed after them either."""

_FINAL: Final = (ArgumentsTooLarge, NotFound, PermissionDenied, Unauthenticated)


@dataclass(frozen=True, slots=True)
class Measured:
    """The measurements of a subtask, beside its estimates: seconds, cost in millionths of a US dollar, and attempts."""

    seconds: float = 0.0
    estimated_seconds: float = 0.0
    cost_micro_usd: int = 0
    estimated_cost_micro_usd: int = 0
    attempts: int = 0


@dataclass(slots=True)
class SubTaskRun:
    """The attempts at a subtask so far. `problem` is the fault of the last one; empty before it, and after a success.
    `started` is a time of the executor's clock."""

    subtask: SubTask
    number: int
    started: float
    problem: str = ""
    confidence: float = 1.0
    attempts: int = 0
    spending: Spending = field(default_factory=Spending)

    def measured(self, now: float) -> Measured:
        """The measurements of the subtask until now."""
        return Measured(
            now - self.started,
            self.subtask.estimated_seconds,
            self.spending.cost_micro_usd,
            self.subtask.estimated_cost_micro_usd,
            self.attempts,
        )


class AttemptFailed(Exception):
    """An attempt failed. `is_final`: another attempt must not be made, or would fail as well; `may_pass`: the same may
    succeed later."""

    def __init__(self, problem: str, *, is_final: bool = False, may_pass: bool = False) -> None:
        super().__init__(problem)
        self.problem = problem
        self.is_final = is_final
        self.may_pass = may_pass


class Attempts:
    """Makes attempts at subtasks, with the settings of a PlanExecutor. A tool that may have acted is not called again,
    unless it says that this does no harm."""

    def __init__(self, worker: Worker, *, check: ResultCheck | None = None, timeout: float = TIMEOUT) -> None:
        self._worker = worker
        self._check = check
        self._timeout = timeout
        self._lists: dict[str, LocalValues] = {}

    async def attempt(self, task: Task, run: SubTaskRun) -> Any:
        """Executes a subtask of a task once, and returns its result. Raises AttemptFailed, and the errors in FATAL."""
        subtask = run.subtask
        try:
            async with work_time(self._timeout):
                result = await self._execute(task, subtask, run)
                problem, run.confidence = await self._checked(subtask, result)
        except FATAL:
            raise
        except asyncio.CancelledError as error:
            current = asyncio.current_task()
            if current is None or current.cancelling():
                raise
            raise AttemptFailed("it was cancelled", is_final=not self.may_repeat(subtask)) from error
        except TimeoutError as error:
            # A deadline of the mesh, which is a TimeoutError too, names the slow part.
            text = str(error) if isinstance(error, DeadlineExceeded) else f"no result within {self._timeout:g} s"
            raise AttemptFailed(text, is_final=not self.may_repeat(subtask), may_pass=True) from error
        except ArchonError as error:
            may_pass = error.retry is not RetryAdvice.NEVER
            is_final = isinstance(error, _FINAL) or not self.may_repeat(subtask)
            raise AttemptFailed(str(error), is_final=is_final, may_pass=may_pass) from error
        except AttemptFailed:
            raise
        except Exception as error:
            message = f"{type(error).__name__}: {error}"
            raise AttemptFailed(message, is_final=not self.may_repeat(subtask)) from error
        if problem:
            raise AttemptFailed(problem, is_final=not self.may_repeat(subtask))
        return result

    def may_repeat(self, subtask: SubTask) -> bool:
        """Tells whether a subtask whose attempt got as far as its tool may be attempted again."""
        tool = self._worker.tools.get_tool(subtask.tool_name) if subtask.tool_name else None
        return tool is None or tool.idempotent or bool(tool.retries)

    async def _execute(self, task: Task, subtask: SubTask, run: SubTaskRun) -> Any:
        worker, message, number = self._worker, subtask_message(task, subtask, run.problem), run.number
        role = subtask.role or (subtask.capability if subtask.capability in worker.roles else "")
        if not subtask.tool_name and (part := SwarmPart.of(_filled(task, subtask))) is not None:
            return await self._serve(part, role, run)
        if subtask.tool_name:
            tool = worker.tools.get_tool(subtask.tool_name)
            if tool is None:
                raise AttemptFailed(f"there is no tool {subtask.tool_name!r}", is_final=True)
            arguments, problem = _complete_arguments(task, subtask, tool)
            if arguments is None:
                if subtask.exact:
                    raise AttemptFailed(problem, is_final=True)
                return await self._think(message, (subtask.tool_name,), run)
            outcome = await worker.call_tool(subtask.tool_name, arguments, number, run.spending)
            return _content(outcome, subtask, may_repeat=self.may_repeat(subtask))
        if role:
            if role not in worker.roles:
                raise AttemptFailed(f"there is no role {role!r}", is_final=True)
            return _content(await worker.ask_role(role, message, number, run.spending), subtask, may_repeat=True)
        if subtask.capability:
            raise AttemptFailed(f"no role has the capability {subtask.capability!r}", is_final=True)
        return await self._think(message, (), run)

    async def _serve(self, part: SwarmPart, role: str, run: SubTaskRun) -> dict[str, Any]:
        """Does the items of a swarm one by one, as one of its members."""
        values, goal = self._lists.setdefault(part.name, LocalValues()), goal_of(run.subtask.description)

        async def do(item: WorkItem) -> Any:
            subtask = replace(run.subtask, output_schema={}, description=item_message(goal, item))
            try:
                if not role:
                    return await self._worker.think(subtask.description, (), run.number, run.spending)
                if role not in self._worker.roles:
                    raise AttemptFailed(f"there is no role {role!r}", is_final=True)
                called = await self._worker.ask_role(role, subtask.description, run.number, run.spending)
                return _content(called, subtask, may_repeat=True)
            except AttemptFailed as error:
                if error.is_final:
                    raise InvalidArgument(error.problem) from None
                raise

        async with WorkList(values, task_id=run.subtask.id, attempt=run.attempts) as work:
            return await serve_list(work, part, do)

    def begin(self) -> None:
        """Forgets the work lists of the plan before."""
        self._lists.clear()

    async def _think(self, message: str, tools: Collection[str], run: SubTaskRun) -> str:
        output = {"output": run.subtask.output_schema} if run.subtask.output_schema else {}
        return await self._worker.think(message, tools, run.number, run.spending, **output)

    async def _checked(self, subtask: SubTask, result: Any) -> tuple[str, float]:
        problem = check_by_rules(subtask, result)
        if problem or self._check is None:
            return problem, 1.0
        checked: CheckedResult = await self._check(subtask, result)
        return checked.problem, checked.confidence


def _filled(task: Task, subtask: SubTask) -> Mapping[str, Any]:
    """The arguments of a subtask without a tool. Raises ArgumentsTooLarge; AttemptFailed if a value is missing."""
    try:
        return fill_arguments(subtask.tool_args, template_values(task)) if subtask.tool_args else {}
    except MissingKey as error:
        raise AttemptFailed(str(error)) from None


def _complete_arguments(task: Task, subtask: SubTask, tool: Tool) -> tuple[dict[str, Any] | None, str]:
    """Returns the arguments for a direct call, or None and why there are none: values are missing or invalid.

    Raises ArgumentsTooLarge.
    """
    try:
        arguments = fill_arguments(subtask.tool_args, template_values(task))
    except MissingKey as error:
        return None, str(error)
    problem = tool.validate_args(arguments)
    return (arguments, "") if problem is None else (None, unfit_arguments(tool.name, problem))


def _content(outcome: ToolOutcome, subtask: SubTask, *, may_repeat: bool) -> Any:
    """Returns the content of a successful call. Raises AttemptFailed."""
    result = outcome.result
    if result.ok:
        if subtask.exact:
            if CUT in result.metadata:
                raise AttemptFailed(too_large(subtask.tool_name, result.metadata[CUT]), is_final=True)
            return result.content
        # Many tools that act return nothing.
        is_silent = result.content in (None, "") and not subtask.expected_output
        return "done" if is_silent else result.content
    if isinstance(outcome.error, FATAL):
        raise outcome.error
    if outcome.error is not None:
        failure = failure_of(outcome.error)
    else:
        failure = failure_of_kind("tool.timeout" if result.status is ToolResultStatus.TIMEOUT else "tool.crash")
    # An error that the tool itself returns says that nothing was done; one that it raised leaves that open.
    is_safe = outcome.error is None and result.status is ToolResultStatus.ERROR
    was_called = result.metadata.get("attempts", 1) != 0
    is_final = was_called and not may_repeat and not is_safe
    raise AttemptFailed(result.error_message, is_final=is_final, may_pass=failure.is_transient)
