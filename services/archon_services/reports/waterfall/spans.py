"""The spans of a run: kind, start, duration and cost of each activity. All times are in seconds since the epoch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from archon.run_view import Usage
from archon_services.reports.texts import tokens_text


class TimeKind(StrEnum):
    """A use of time. `AGENT` is the rest of an attempt: the agent's own work."""

    WAITING = "waiting"
    """For a predecessor, for a person, or because the run was paused."""
    QUEUE = "queue"
    """Ready, but not dispatched: no instance had room, or the time of the retry had not come."""
    MODEL = "model"
    TOOL = "tool"
    DELEGATION = "delegation"
    AGENT = "agent"


class SpanKind(StrEnum):
    """A kind of span."""

    RUN = "run"
    WAITING = "waiting"
    QUEUE = "queue"
    ATTEMPT = "attempt"
    MODEL = "model"
    TOOL = "tool"
    DELEGATION = "delegation"
    QUESTION = "question"
    DECISION = "decision"
    """A choice by rule among the results of other steps, at one moment."""


TIME_OF: Final = {
    SpanKind.RUN: TimeKind.QUEUE,
    SpanKind.WAITING: TimeKind.WAITING,
    SpanKind.QUEUE: TimeKind.QUEUE,
    SpanKind.ATTEMPT: TimeKind.AGENT,
    SpanKind.MODEL: TimeKind.MODEL,
    SpanKind.TOOL: TimeKind.TOOL,
    SpanKind.DELEGATION: TimeKind.DELEGATION,
    SpanKind.QUESTION: TimeKind.WAITING,
    SpanKind.DECISION: TimeKind.QUEUE,
}
"""The kind of a span's time that no child explains."""


@dataclass(slots=True)
class Span:
    """One span. `children` lie within it, except for the tasks below a delegation, which may outlive their caller."""

    kind: SpanKind
    name: str
    """The role of an attempt, of a task that waits, and of a delegation; the model; the tool."""
    start: float
    end: float
    status: str = ""
    """How it ended, such as `completed` or `lost`; `working` if it has not."""
    detail: str = ""
    """Why it ended so, or the cause of its wait."""
    task_id: str = ""
    attempt: int = 0
    instance: str = ""
    spent: Usage = field(default_factory=Usage)
    children: list[Span] = field(default_factory=list)
    number: int = 0
    """Position in the tree, from 1, parents first."""

    @property
    def seconds(self) -> float:
        """Its duration."""
        return max(0.0, self.end - self.start)

    @property
    def tokens(self) -> str:
        """The tokens in and out as text; empty if there are none."""
        return tokens_text(self.spent, " tokens") if self.spent.input_tokens or self.spent.output_tokens else ""

    def walk(self, depth: int = 0) -> Iterator[tuple[int, Span]]:
        """Yields this span and all below it with their depths, parents first."""
        stack = [(depth, self)]
        while stack:
            level, span = stack.pop()
            yield level, span
            stack += [(level + 1, child) for child in reversed(span.children)]


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment of a run, such as a takeover."""

    time: float
    text: str


@dataclass(frozen=True, slots=True)
class PathStep:
    """A piece of the critical path: the span that determined the end of the run in this time."""

    span: Span
    start: float
    end: float
    kind: TimeKind

    @property
    def seconds(self) -> float:
        """Its duration."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Waterfall:
    """A run as spans. The steps of `path` follow each other from the start of the run to its end."""

    run_id: str
    strategy: str
    root: Span
    path: list[PathStep]
    marks: list[Mark]
    notes: list[str]
    """Missing data and corrections."""

    def critical(self) -> set[int]:
        """Returns the numbers of the spans that the critical path passes through, and of the spans above them."""
        numbers = {step.span.number for step in self.path}
        above: list[Span] = []
        for depth, span in self.root.walk():
            del above[depth:]
            above.append(span)
            if span.number in numbers:
                numbers.update(each.number for each in above)
        return numbers

    def critical_tasks(self) -> list[str]:
        """Returns the ids of the tasks that the critical path passes through, and of those that have delegated them."""
        numbers = self.critical()
        tasks = (span.task_id for _, span in self.root.walk() if span.number in numbers and span.task_id)
        return list(dict.fromkeys(tasks))
