"""The difference of two runs: structure, prompts, tool calls, answers, cost and time."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from archon.json_text import json_or
from archon.run_view import RunView, TaskView
from archon.types import RunRecord
from archon_mesh.explain.event_text import parts_text
from archon_mesh.recorded import RecordedRun
from archon_mesh.run_diff.pieces import Piece, word_diff

LEFT: Final = 0
RIGHT: Final = 1


@dataclass(frozen=True, slots=True)
class TaskSide:
    """A task in one run: its state, its attempts with their outcomes, the tasks whose answers it used, and its
    measures. `answer` is None if the task has none, or its event has been deleted."""

    state: str
    outcomes: tuple[str, ...]
    used: tuple[str, ...]
    answer: str | None
    cost_usd: float
    tokens: int
    seconds: float
    prompts: tuple[tuple[str, ...], ...] = ()
    tools: tuple[str, ...] = ()

    @property
    def structure(self) -> tuple[object, ...]:
        """The parts that are compared as structure."""
        return self.state, self.outcomes, self.used


@dataclass(frozen=True, slots=True)
class TextChange:
    """A text that differs: whose it is, and its pieces. `label` is the task; `place` says which of its texts."""

    label: str
    place: str
    pieces: tuple[Piece, ...]

    def document(self) -> dict[str, Any]:
        """Returns the JSON form."""
        pieces = [{"kind": str(piece.kind), "text": piece.text} for piece in self.pieces]
        return {"task": self.label, "place": self.place, "pieces": pieces}


@dataclass(frozen=True)
class TaskDiff:
    """A task that is in both runs, or in one: None on the other side."""

    label: str
    sides: tuple[TaskSide | None, TaskSide | None]

    @property
    def same(self) -> bool:
        """Whether the structure of the task is the same in both runs."""
        left, right = self.sides
        return left is not None and right is not None and left.structure == right.structure


@dataclass(frozen=True)
class RunDiff:
    """The difference of two runs, which are the same if they differ in times at most."""

    runs: tuple[RecordedRun, RecordedRun]
    fields: Mapping[str, tuple[str, str]]
    """Goal, strategy, state, failure and edges: as text on both sides."""
    tasks: tuple[TaskDiff, ...]
    notes: tuple[str, ...] = field(default=())
    """Things that could not be compared."""

    @cached_property
    def answers(self) -> tuple[TextChange, ...]:
        """The answers that differ, of tasks that are in both runs; and the final answers, if other tasks gave them."""
        found = []
        for task in self.tasks:
            left, right = task.sides
            if left is not None and right is not None and left.answer != right.answer:
                pieces = word_diff(left.answer or "", right.answer or "")
                found.append(TextChange(task.label, "answer", tuple(pieces)))
        before, after = self.runs
        authors = [{(answer.role, answer.step_id) for answer in side.run.answers} for side in self.runs]
        if authors[LEFT] != authors[RIGHT] and before.answer != after.answer:
            found.append(TextChange("final answer", "answer", tuple(word_diff(before.answer, after.answer))))
        return tuple(found)

    @cached_property
    def prompts(self) -> tuple[TextChange, ...]:
        """The messages of prompts that differ."""
        found: list[TextChange] = []
        for task in self.tasks:
            left, right = task.sides
            if left is not None and right is not None:
                found += _prompt_changes(task.label, left.prompts, right.prompts)
        return tuple(found)

    @cached_property
    def tools(self) -> tuple[TextChange, ...]:
        """The tool calls that differ, a line for each call."""
        return tuple(
            TextChange(task.label, "tool calls", tuple(word_diff("\n".join(left.tools), "\n".join(right.tools))))
            for task in self.tasks
            if (left := task.sides[0]) is not None
            and (right := task.sides[1]) is not None
            and left.tools != right.tools
        )

    @property
    def usage(self) -> dict[str, tuple[float, float]]:
        """Cost in US dollars, tokens, calls of models and tools, on both sides."""
        left, right = self.runs
        return {
            "cost_usd": (left.cost_usd, right.cost_usd),
            "tokens": (left.tokens, right.tokens),
            "model_calls": (left.run.usage.model_calls, right.run.usage.model_calls),
            "tool_calls": (left.run.usage.tool_calls, right.run.usage.tool_calls),
        }

    @cached_property
    def same(self) -> bool:
        """Whether the runs are the same apart from ids, instances and times."""
        return (
            all(left == right for left, right in (*self.fields.values(), *self.usage.values()))
            and all(task.same for task in self.tasks)
            and not (self.answers or self.prompts or self.tools)
        )

    def document(self) -> dict[str, Any]:
        """Returns the JSON form."""
        left, right = self.runs
        return {
            "same": self.same,
            "runs": [left.run.run_id, right.run.run_id],
            "fields": {
                name: {"left": one, "right": other, "same": one == other} for name, (one, other) in self.fields.items()
            },
            "tasks": [
                {"task": task.label, "same": task.same, "left": _side(task.sides[0]), "right": _side(task.sides[1])}
                for task in self.tasks
            ],
            "answers": [change.document() for change in self.answers],
            "prompts": [change.document() for change in self.prompts],
            "tools": [change.document() for change in self.tools],
            "usage": {name: {"left": one, "right": other} for name, (one, other) in self.usage.items()},
            "seconds": {"left": left.seconds, "right": right.seconds},
            "notes": list(self.notes),
        }


def diff_runs(left: RecordedRun, right: RecordedRun) -> RunDiff:
    """Returns the difference of two runs. Tasks are matched by their place: the task that delegated them, their role,
    their step, and their number among those with the same."""
    sides = _task_sides(left), _task_sides(right)
    labels = list(sides[LEFT]) + [label for label in sides[RIGHT] if label not in sides[LEFT]]
    tasks = tuple(TaskDiff(label, (sides[LEFT].get(label), sides[RIGHT].get(label))) for label in labels)
    return RunDiff((left, right), _fields(left, right), tasks, tuple(_notes(left, right)))


def _fields(left: RecordedRun, right: RecordedRun) -> dict[str, tuple[str, str]]:
    return {
        "goal": (_goal(left), _goal(right)),
        "strategy": (left.run.strategy, right.run.strategy),
        "state": (str(left.run.state), str(right.run.state)),
        "failure": (_failure(left), _failure(right)),
        "edges": (_edges(left), _edges(right)),
    }


def _goal(recorded: RecordedRun) -> str:
    return "\n\n".join(part.text or part.data_json or part.url or part.filename for part in recorded.run.goal)


def _failure(recorded: RecordedRun) -> str:
    failure = recorded.run.failure
    return f"{failure.reason} {failure.message}".strip() if failure is not None else ""


def _edges(recorded: RecordedRun) -> str:
    return ", ".join(sorted(f"{edge.upstream} -> {edge.downstream}" for edge in recorded.run.edges))


def _notes(left: RecordedRun, right: RecordedRun) -> list[str]:
    notes = []
    for recorded, name in ((left, "left"), (right, "right")):
        if recorded.expired:
            notes.append(
                f"the details of the {name} run were removed by retention: attempts and answers of its tasks are "
                "unknown"
            )
        if recorded.expired or not recorded.records_read:
            continue
        if recorded.run.usage.model_calls and not any(record.kind == "model" for record in recorded.records):
            notes.append(f"the model calls of the {name} run are not recorded: its prompts are unknown")
    return notes


def _task_sides(recorded: RecordedRun) -> dict[str, TaskSide]:
    view = RunView()
    answers: dict[str, str] = {}
    used: dict[str, list[int]] = {}
    for event in recorded.events:
        view.apply(event)
        if event.type == "result":
            answers[event.task_id] = parts_text(event.data["output"])
            used[event.task_id] = [ref["seq"] for ref in event.data["used"] if ref["run_id"] in ("", event.run_id)]
    answers = answers or {answer.task_id: answer.text for answer in recorded.run.answers}
    labels = _labels(recorded, view)
    by_seq = {task.result_seq: labels[task.task_id] for task in recorded.run.tasks if task.result_seq}
    records: dict[str, list[RunRecord]] = {}
    for record in sorted(recorded.records, key=lambda record: (record.start_time, record.ordinal)):
        records.setdefault(record.task.task_id, []).append(record)
    sides = {}
    for task in recorded.run.tasks:
        shown = view.tasks.get(task.task_id)
        sides[labels[task.task_id]] = TaskSide(
            state=str(task.state),
            outcomes=tuple(str(attempt.outcome) for attempt in shown.attempts) if shown is not None else (),
            used=tuple(sorted(by_seq.get(seq, "") for seq in used.get(task.task_id, ()))),
            answer=answers.get(task.task_id),
            cost_usd=task.usage.cost_micro_usd / 1e6,
            tokens=task.usage.input_tokens + task.usage.output_tokens,
            seconds=_seconds(shown),
            prompts=tuple(_messages(record) for record in records.get(task.task_id, ()) if record.kind == "model"),
            tools=tuple(_tool(record) for record in records.get(task.task_id, ()) if record.kind == "tool"),
        )
    return sides


def _seconds(task: TaskView | None) -> float:
    return max(0.0, task.ended - task.attempts[0].started) if task is not None and task.attempts and task.ended else 0.0


def _labels(recorded: RecordedRun, view: RunView) -> dict[str, str]:
    """Returns a label for each task that says its place: its parents, its role, its step, and its number if there are
    several."""
    labels: dict[str, str] = {}
    seen: Counter[str] = Counter()
    for task in recorded.run.tasks:
        shown = view.tasks.get(task.task_id)
        own = shown.label if shown is not None else f"{task.role} ({task.step_id})" if task.step_id else task.role
        parent = labels.get(task.parent_task_id, "")
        label = f"{parent} > {own}" if parent else own
        seen[label] += 1
        labels[task.task_id] = label if seen[label] == 1 else f"{label} #{seen[label]}"
    return labels


def _messages(record: RunRecord) -> tuple[str, ...]:
    """Returns the messages of a prompt as texts, and the names of its tools."""
    request = json_or(record.request_json)
    if not isinstance(request, dict) or not isinstance(request.get("messages"), list):
        return (record.request_json,)
    texts = []
    for message in request["messages"]:
        if not isinstance(message, dict):
            texts.append(_text(message))
            continue
        calls = message.get("tool_calls") or []
        called = [_text(call.get("function", call)) for call in calls if isinstance(call, dict)]
        texts.append("\n".join([f"{message.get('role', '')}: {_text(message.get('content', ''))}", *called]))
    tools = [str((tool.get("function") or {}).get("name", "")) for tool in request.get("tools") or []]
    return (*texts, f"tools: {', '.join(tools)}") if tools else tuple(texts)


def _tool(record: RunRecord) -> str:
    return f"{record.target} {_text(json_or(record.request_json, record.request_json))}"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False)


def _prompt_changes(label: str, left: Sequence[tuple[str, ...]], right: Sequence[tuple[str, ...]]) -> list[TextChange]:
    """Returns the messages that differ, call by call. A call that only one run has is one change."""
    changes = []
    for number in range(max(len(left), len(right))):
        first, second = (calls[number] if number < len(calls) else () for calls in (left, right))
        if not first or not second:
            pieces = word_diff("\n".join(first), "\n".join(second))
            changes.append(TextChange(label, f"call {number + 1}", tuple(pieces)))
            continue
        for index in range(max(len(first), len(second))):
            one, other = (texts[index] if index < len(texts) else "" for texts in (first, second))
            if one != other:
                place = f"call {number + 1}, message {index + 1}"
                changes.append(TextChange(label, place, tuple(word_diff(one, other))))
    return changes


def _side(side: TaskSide | None) -> dict[str, Any] | None:
    if side is None:
        return None
    return {
        "state": side.state,
        "attempts": list(side.outcomes),
        "used": list(side.used),
        "cost_usd": side.cost_usd,
        "tokens": side.tokens,
        "seconds": side.seconds,
        "model_calls": len(side.prompts),
        "tool_calls": len(side.tools),
    }
