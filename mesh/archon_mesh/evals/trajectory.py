"""The trajectory of a run: its answer, and how the agents came to it. Scorers read it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from archon.json_text import json_or
from archon.types import RunRecord, TaskState
from archon_mesh.recorded import RecordedRun


@dataclass(frozen=True, slots=True)
class CalledTool:
    """A tool call: by which role, with which arguments (a JSON value), and whether it failed."""

    name: str
    role: str = ""
    arguments: Any = None
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Trajectory:
    """A run as scorers see it. `tool_calls` is None if they are unknown, because the run's calls are not recorded;
    `stars` is the mean of people's ratings, None before the first one. `state` is the final state of the run, such as
    `completed`."""

    answer: str
    state: str = "completed"
    failure: str = ""
    failure_reason: str = ""
    """The reason of the failure for programs, such as `RUN_TIMEOUT`."""
    run_id: str = ""
    roles: tuple[str, ...] = ()
    tool_calls: tuple[CalledTool, ...] | None = ()
    cost_usd: float = 0.0
    tokens: int = 0
    seconds: float = 0.0
    stars: float | None = None

    @property
    def completed(self) -> bool:
        """Whether the run has completed, so that there is an answer."""
        return self.state == TaskState.COMPLETED


def trajectory_of(recorded: RecordedRun) -> Trajectory:
    """Returns the trajectory of an ended run, whose records were read."""
    run = recorded.run
    calls = called_tools(recorded.records)
    return Trajectory(
        answer=recorded.answer,
        state=str(run.state),
        failure=run.failure.message if run.failure is not None else "",
        failure_reason=run.failure.reason if run.failure is not None else "",
        run_id=run.run_id,
        roles=recorded.roles,
        tool_calls=None if run.usage.tool_calls and not calls else calls,
        cost_usd=recorded.cost_usd,
        tokens=recorded.tokens,
        seconds=recorded.seconds,
        stars=fmean(rating.stars for rating in run.ratings) if run.ratings else None,
    )


def called_tools(records: Iterable[RunRecord]) -> tuple[CalledTool, ...]:
    """Returns the recorded tool calls in the order in which they began."""
    tools = [record for record in records if record.kind == "tool"]
    tools.sort(key=lambda record: (record.start_time, record.ordinal))
    return tuple(
        CalledTool(record.target, record.role, json_or(record.request_json), _failed(record.response_json))
        for record in tools
    )


def _failed(response: str) -> bool:
    value = json_or(response)
    return isinstance(value, dict) and ("error" in value or value.get("status", "ok") not in ("success", "ok"))
