"""A run with strategy `plan`, driven input by input."""

from __future__ import annotations

from dataclasses import replace

from archon_mesh.core.people import InterceptionRule
from archon_mesh.engine import Place, RunState, open_effects
from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.decide.fork import reusable_plan
from archon_mesh.engine.fold.apply import fold
from archon_mesh.engine.plan import SubTask
from archon_mesh.engine.plan import Task as Plan
from archon_mesh.engine.task import Task
from archon_mesh.engine.types import Failure, PlanTarget, Submission, TaskState
from tests.unit.mesh.engine.checked_step import checked_step

T0 = 1_000.0
BROKEN = Failure("INVALID_ARGUMENT", "INVALID_ARGUMENT", "cannot")
BUSY = Failure("UNAVAILABLE", "UNAVAILABLE", "later", retry_delay=0.1)

TARGETS = (
    PlanTarget("booker", "Books hotels and flights.", False, ("booking",), ("book", "search")),
    PlanTarget("writer", "Writes texts.", False, ("writing",), ()),
)


def step(id: str, *dependencies: str, **fields: object) -> SubTask:
    role = fields.pop("role", "" if "tool_name" in fields or "capability" in fields else "writer")
    return SubTask(id, f"Do {id}.", dependencies=dependencies, role=str(role), **fields)  # type: ignore[arg-type]


def plan_of(*steps: SubTask, goal: str = "do it") -> Plan:
    return Plan("", "do it", goal, steps)


class PlanRun:
    """Each input is also encoded and decoded, and each step's effects are compared with those of the states."""

    def __init__(
        self,
        *steps: SubTask,
        rules: tuple[InterceptionRule, ...] = (),
        fork_of: RunState | None = None,
        check_alignment: bool = False,
    ) -> None:
        self.state = RunState()
        self.now = T0
        self.log: list[tuple[ev.Event, float]] = []
        submission = Submission(
            "r",
            "default",
            "q",
            "",
            "plan",
            ("planner",),
            (),
            600.0,
            None,
            targets=TARGETS,
            rules=rules,
            check_alignment=check_alignment,
        )
        if fork_of is None:
            self.feed(inp.Submit(submission, "owner", 1))
        else:
            plan = reusable_plan(fork_of, "the reply")
            reused = _reusable(fork_of) if plan is not None else ()
            forked = replace(submission, run_id="f", parent_run_id="r")
            self.feed(inp.Submit(forked, "owner", 1, reused, plan))
        if steps:
            self.begin("r.1")
            self.reply(*steps)

    def feed(self, given: inp.Input, *, at: float | None = None) -> list[ev.Event]:
        """Decides an input, at a later time (wall seconds) if one is given."""
        self.now = self.now if at is None else at
        events = checked_step(self.state, given, self.now)
        self.log += [(event, self.now) for event in events]
        assert fold(self.log) == self.state
        return events

    def task(self, step_id: str) -> Task:
        """The task of a step, or the one with this id."""
        assert self.state.plan is not None
        return self.state.tasks[self.state.plan.tasks.get(step_id, step_id)]

    def begin(self, *names: str) -> None:
        for name in names:
            self.feed(inp.SlotFound(self.task(name).task_id, "i"))

    def reply(self, *steps: SubTask, goal: str = "do it") -> list[ev.Event]:
        """The planner's reply."""
        assert self.state.plan is not None
        task = self.state.tasks[self.state.plan.planner]
        plan = plan_of(*steps, goal=goal)
        return self.feed(inp.PlanIn(task.task_id, task.attempt, TaskState.COMPLETED, None, plan=plan))

    def verdict(self, *steps: SubTask, reason: str = "") -> list[ev.Event]:
        """The planner's reply to the check in progress: with steps another plan, without them that it is aligned."""
        assert self.state.plan is not None
        task = self.state.tasks[self.state.plan.alignment]
        if not task.live:
            self.begin(task.task_id)
        plan = plan_of(*steps) if steps else None
        given = inp.PlanIn(task.task_id, task.attempt, TaskState.COMPLETED, None, plan=plan, reason=reason)
        return self.feed(given)

    def complete(self, *names: str) -> list[ev.Event]:
        events: list[ev.Event] = []
        for name in names:
            task = self.task(name)
            if not task.live:
                self.begin(name)
            events = self.feed(inp.ResultIn(task.task_id, task.attempt, TaskState.COMPLETED, f"answer of {name}"))
        return events

    def fail(self, name: str, failure: Failure = BROKEN) -> list[ev.Event]:
        task = self.task(name)
        if not task.live:
            self.begin(name)
        return self.feed(inp.ResultIn(task.task_id, task.attempt, TaskState.FAILED, None, failure))

    def waiting(self) -> set[str]:
        """The steps, or else the task ids, that are ready."""
        tasks = [self.state.tasks[each.task_id] for each in open_effects(self.state) if isinstance(each, Place)]
        return {task.step_id or task.task_id for task in tasks}

    def states(self) -> dict[str, str]:
        assert self.state.plan is not None
        return {id_: self.task(id_).state.name for id_ in self.state.plan.tasks}

    def count(self, kind: type[ev.Event]) -> int:
        return sum(isinstance(event, kind) for event, _ in self.log)


def _reusable(source: RunState) -> tuple[inp.ReusedAnswer, ...]:
    """Returns the answers to the steps of the plan in force, and the one that combines them, in topological order."""
    plan = source.plan
    assert plan is not None
    return tuple(
        inp.ReusedAnswer(
            task.role,
            task.payload,
            True,
            tuple(published.item for published in task.items if published.seq > task.result_seq),
            task.step_id,
            task.winner,
        )
        for task in source.roots()
        if task.state is TaskState.COMPLETED and (plan.in_force(task) or task.task_id == plan.synthesis)
    )
