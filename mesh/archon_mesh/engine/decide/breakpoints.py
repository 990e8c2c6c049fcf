"""Decides about breakpoints: they are set by callers, and hold a task before its dispatch. At calls of tools and models
the runtime of an agent holds, and asks as any tool that asks a person does."""

from __future__ import annotations

from archon_mesh.core.people import Breakpoint, BreakpointPoint, find_breakpoint
from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.state import RunState
from archon_mesh.engine.task import Task


def set_breakpoints(run: RunState, request: inp.SetBreakpoints, now: float) -> list[ev.Event]:
    """Replaces the breakpoints of the run; no event if it has these already, or is ending."""
    if run.submission is None or run.ended or run.ending is not None or run.breakpoints == request.breakpoints:
        return []
    return [ev.BreakpointsSet(request.identity, request.breakpoints)]


def hold(run: RunState, task: Task) -> ev.ApprovalRequested | None:
    """Returns the question that holds a task before its dispatch; None if no breakpoint does, or one has before."""
    if task.was_held or (found := _before(run, task)) is None:
        return None
    return ev.ApprovalRequested(
        task.task_id,
        task.attempt,
        task.role,
        f"{task.task_id}/breakpoint",
        found.terms,
        None,
        publish=True,
        message=f"The run is held at the breakpoint {found}, before the task of {task.label}.",
        breakpoint=str(found),
    )


def _before(run: RunState, task: Task) -> Breakpoint | None:
    found = find_breakpoint(run.breakpoints, BreakpointPoint.TASK, task.role)
    if found is None and task.step_id:
        found = find_breakpoint(run.breakpoints, BreakpointPoint.STEP, task.step_id)
    return found
