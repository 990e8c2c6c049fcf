"""What a step of a plan costs in a plan of any size, in executed lines of the engine rather than in time."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

from archon_mesh.engine import RunState, apply, effects_of, is_local
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.decide.engine import decide
from archon_mesh.engine.plan import SubTask
from archon_mesh.engine.plan import Task as Plan
from archon_mesh.engine.types import PlanTarget, Submission, TaskState
from archon_services.orchestrator.runs.turn.candidates import Candidates

WIDTH = 5
"""Steps that can be in progress at the same time."""


class Counter:
    """Counts the lines that are executed within it."""

    def __init__(self) -> None:
        self.lines = 0

    def __enter__(self) -> Counter:
        self._before = sys.gettrace()
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def _trace(self, frame: FrameType, event: str, argument: object) -> Any:
        self.lines += event == "line"
        return self._trace


def drive(run: RunState, candidates: Candidates, given: inp.Input, now: float = 1_000.0) -> None:
    """What a driver does for an input."""
    events = decide(run, given, now)
    if events and not is_local(run, events):
        candidates.reset()
    for event in events:
        apply(run, event, now)
        candidates.note(run, event)
    effects_of(run, events)


def lines_per_step(count: int) -> float:
    """Plays a plan of `count` steps in chains, a failed step in each ten of them included."""
    steps = [
        SubTask(
            f"s{number}",
            "write it",
            dependencies=(f"s{number - WIDTH}",) if number >= WIDTH else (),
            role="writer",
            partial_input=True,
        )
        for number in range(count)
    ]
    run, candidates = RunState(), Candidates()
    targets = (PlanTarget("writer"),)
    submission = Submission("r", "default", "q", "", "plan", ("planner",), (), 600.0, None, targets=targets)
    with Counter() as counter:
        drive(run, candidates, inp.Submit(submission, "o", 1))
        candidates.take(run, ())
        drive(run, candidates, inp.SlotFound("r.1", "i"))
        plan = Plan("", "write it", "write it", tuple(steps))
        drive(run, candidates, inp.PlanIn("r.1", 1, TaskState.COMPLETED, None, plan=plan))
        done = 0
        while ready := [task for task in candidates.take(run, ()) if run.ready(task)]:
            for task in ready:
                drive(run, candidates, inp.SlotFound(task.task_id, "i"))
                done += 1
                state = TaskState.REJECTED if done % 10 == 9 else TaskState.COMPLETED
                drive(run, candidates, inp.ResultIn(task.task_id, task.attempt, state, None))
    assert run.state is TaskState.COMPLETED
    assert done >= count
    return counter.lines / count


def test_a_step_costs_the_same_in_a_plan_of_any_size() -> None:
    small, large = lines_per_step(10), lines_per_step(1_000)
    assert large <= 1.5 * small, f"{large:.0f} lines per step in a plan of 1,000 steps, {small:.0f} in one of 10"
