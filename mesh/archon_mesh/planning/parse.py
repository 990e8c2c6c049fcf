"""Reads a planner's reply, which may be any text."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from archon.json_text import json_object
from archon.output import MAX_SCHEMA_BYTES
from archon.surrogates import without_surrogates
from archon_mesh.engine.plan import SubTask, Task
from archon_mesh.engine.plan.templates import MAX_DEPTH, MAX_KEY, as_text
from archon_mesh.llm.text_format.lenient_json import LenientReader, NotJson
from archon_mesh.llm.text_format.sections import without_thinking
from archon_mesh.planning.errors import MalformedPlan
from archon_mesh.tools.mcp.listing import without_patterns

MAX_REPLY: Final = 1024 * 1024
"""Characters of a reply that is read."""

MAX_READ_SUBTASKS: Final = 10_000
"""Subtasks of a reply that is read; a plan has far fewer."""

MAX_CHANGES: Final = 50
"""Repairs that a planner may report."""

MAX_CHANGE: Final = 300
"""Characters of one of them."""

_MAX_LEVELS: Final = MAX_DEPTH + 8
_MAX_CANDIDATES: Final = 20
_MAX_NUMBER: Final = 1e9
_LISTS: Final = ("subtasks", "sub_tasks", "steps", "tasks")
_WRAPPERS: Final = ("plan", "task", "result", "output")
_NOTHING: Final = frozenset({"", "none", "null", "n/a", "na", "nil", "-"})
_TRUE: Final = frozenset({"true", "yes", "1", "y"})
_NUMBER: Final = re.compile(r"\s*([0-9]{1,12}(?:\.[0-9]{1,12})?)")
_SEPARATOR: Final = re.compile(r"[,;\s]+(?:and\s+)?")


def parse_plan(text: str, query: str, task_id: str) -> Task:
    """Returns the plan in a planner's reply, as it is there: with its ids, and with its faults.

    The JSON is read leniently, and may stand within other text. Values of a wrong type are converted if their meaning
    is clear, and left out otherwise. A subtask without an id gets its number. Subtasks that are plain texts depend on
    each other in their order. A plan without a goal has the query as its goal.

    Raises MalformedPlan if there is no plan, if it is cut off, or if it exceeds MAX_REPLY or MAX_READ_SUBTASKS.
    """
    data = read_reply(text)
    items = _items_of(data)
    if items is None:
        raise MalformedPlan("the planner's reply has no list of subtasks")
    if len(items) > MAX_READ_SUBTASKS:
        raise MalformedPlan(f"the planner's reply has {len(items):,} subtasks; at most {MAX_READ_SUBTASKS:,} are read")
    goal = _text(data.get("goal")) or query
    return Task(task_id, query, goal, _subtasks(items), _arguments(data.get("context")))


def parse_alignment(text: str, query: str, task_id: str) -> tuple[Task | None, str, tuple[str, ...]]:
    """Returns the plan with which a planner replaces one that no longer leads to the goal, the reason for it, and the
    planner's repairs of it; no plan if the reply says that the one in force is aligned. Raises MalformedPlan if it says
    neither."""
    for value, complete in _values(without_thinking(text[:MAX_REPLY])):
        if isinstance(value, dict) and complete and value.get("aligned") is True:
            return None, "", ()
    plan = parse_plan(text, query, task_id)
    return plan, _text(read_reply(text).get("reason")), parse_changes(text)


def parse_question(text: str) -> str:
    """Returns the question that a planner asks in place of a plan, or an empty text."""
    try:
        data = read_reply(text)
    except MalformedPlan:
        return ""
    return "" if _items_of(data) else _text(data.get("question"))


def parse_changes(text: str) -> tuple[str, ...]:
    """Returns the repairs that a planner reports of its plan: at most MAX_CHANGES lines."""
    try:
        changes = read_reply(text).get("changes")
    except MalformedPlan:
        return ()
    lines = [_text(change) for change in changes[:MAX_CHANGES]] if isinstance(changes, list) else []
    return tuple(" ".join(line.split())[:MAX_CHANGE] for line in lines if line)


def parse_context(text: str) -> dict[str, Any]:
    """Returns the values in a JSON object; none if the text is anything else."""
    return json_object(text) or {}


def parse_template(text: str) -> tuple[str, dict[str, Any]] | None:
    """Returns the name and the arguments of the template that a planner answers with, or None."""
    for value, complete in _values(without_thinking(text[:MAX_REPLY])):
        if isinstance(value, dict) and complete and _items_of(value) is None and (name := _name(value.get("template"))):
            return name, _arguments(value.get("arguments"))
    return None


def read_reply(text: str) -> dict[str, Any]:
    """Returns the JSON object of a reply: the first one with a list of subtasks or a question. Raises MalformedPlan."""
    if len(text) > MAX_REPLY:
        raise MalformedPlan(f"the planner's reply has {len(text):,} characters; at most {MAX_REPLY:,} are read")
    is_cut, is_deep = False, False
    for value, complete in _values(without_thinking(text)):
        if _is_too_deep(value):
            is_deep = True
            continue
        data = _plan_of(value)
        if data is not None and complete:
            return data
        is_cut |= not complete
    if is_deep:
        raise MalformedPlan(f"the planner's reply is nested more than {_MAX_LEVELS} levels deep")
    raise MalformedPlan("the planner's reply is cut off" if is_cut else "the planner's reply has no plan in JSON")


def _values(text: str) -> Iterator[tuple[Any, bool]]:
    """Yields the JSON values in a text, outermost first, and whether each is complete: its last bracket may be missing,
    but none within it."""
    position = 0
    for _ in range(_MAX_CANDIDATES):
        starts = [start for start in (text.find("{", position), text.find("[", position)) if start >= 0]
        if not starts:
            return
        reader = LenientReader(text, min(starts))
        try:
            value = reader.read()
        except NotJson as error:
            if error.cut:
                yield None, False
            # Text behind it may be a plan; text within a broken value is only a part of one.
            position = max(error.position, min(starts) + 1)
            continue
        inner = value.values() if isinstance(value, dict) else value
        yield value, not any(reader.is_unclosed(each) for each in inner if isinstance(each, (dict, list)))
        position = max(reader.position, min(starts) + 1)


def _plan_of(value: Any) -> dict[str, Any] | None:
    if isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
        # A list of subtasks alone, or a plan within a list.
        inner = _plan_of(value[0]) if len(value) == 1 else None
        return inner or ({"subtasks": value} if "description" in value[0] else None)
    if not isinstance(value, dict):
        return None
    if _items_of(value) is not None or _text(value.get("question")):
        return value
    for key in _WRAPPERS:
        inner = value.get(key)
        if isinstance(inner, dict) and (_items_of(inner) is not None):
            return inner
        if isinstance(inner, list):
            return {**value, "subtasks": inner}
    return None


def _items_of(data: Mapping[str, Any]) -> list[Any] | None:
    for key in _LISTS:
        items = data.get(key)
        if isinstance(items, dict):
            # Subtasks by id.
            return [{"id": id_, **item} if isinstance(item, dict) else item for id_, item in items.items()]
        if isinstance(items, list):
            return items
    return None


def _subtasks(items: Sequence[Any]) -> tuple[SubTask, ...]:
    if items and all(isinstance(item, str) for item in items):
        return tuple(
            SubTask(str(number), _text(item), dependencies=(str(number - 1),) if number > 1 else ())
            for number, item in enumerate(items, start=1)
        )
    given = {_id(item.get("id")) for item in items if isinstance(item, dict)}
    subtasks = []
    for number, item in enumerate(items, start=1):
        if isinstance(item, str) and item.strip():
            item = {"description": item}
        if not isinstance(item, dict):
            continue
        id_ = _id(item.get("id")) or _unused(number, given)
        given.add(id_)
        subtasks.append(_subtask(id_, item))
    known = {subtask.id for subtask in subtasks}
    return tuple(replace(each, dependencies=tuple(_known_ids(each.dependencies, known))) for each in subtasks)


def _subtask(id_: str, item: Mapping[str, Any]) -> SubTask:
    def first(*keys: str) -> Any:
        return next((item[key] for key in keys if item.get(key) is not None), None)

    tool = first("tool_name", "tool")
    arguments = first("tool_args", "args", "arguments")
    if isinstance(tool, dict):
        arguments = arguments or tool.get("arguments")
        tool = tool.get("name")
    return SubTask(
        id_,
        _text(first("description", "task", "name", "title", "step")),
        _text(item.get("expected_output")),
        _name(tool),
        _arguments(arguments),
        tuple(_dependencies(first("dependencies", "depends_on"))),
        role=_name(first("role", "agent")),
        capability=_name(item.get("capability")),
        critical=_flag(item.get("critical")),
        partial_input=_flag(item.get("partial_input")),
        checkpoint=_flag(item.get("checkpoint")),
        expand=_flag(item.get("expand")),
        expand_on_failure=_flag(item.get("expand_on_failure")),
        estimated_seconds=_number(item.get("estimated_seconds")),
        estimated_cost_micro_usd=int(_number(item.get("estimated_cost_micro_usd"))),
        confidence=_confidence(item.get("confidence")),
        output_schema=_schema(item.get("output_schema")),
        exact=_flag(item.get("exact")),
        quorum=int(_number(item.get("quorum"))),
        delay_seconds=_number(item.get("delay_seconds")),
        delay_quantile=_number(item.get("delay_quantile")),
        decision=_name(item.get("decision")),
        timeout_seconds=_number(item.get("timeout_seconds")),
        assigned_by=_id(item.get("assigned_by")),
        bid_for=_id(item.get("bid_for")),
    )


def _id(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    # As long as the key of a template may be.
    return _text(value)[:MAX_KEY] if isinstance(value, (str, int, float)) else ""


def _unused(number: int, taken: set[str]) -> str:
    id_ = str(number)
    while id_ in taken:
        id_ += "a"
    return id_


def _dependencies(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        value = [value] if "id" in value else list(value)
    for item in value if isinstance(value, list) else [value]:
        id_ = _id(item.get("id") if isinstance(item, dict) else item)
        if id_.lower() not in _NOTHING:
            yield id_


def _known_ids(ids: Sequence[str], known: set[str]) -> Iterator[str]:
    """Yields the ids, and those in a text that is no id but a list of them: `1, 2`."""
    seen: set[str] = set()
    for id_ in ids:
        parts = [] if id_ in known else [part for part in _SEPARATOR.split(id_) if part]
        for part in parts if parts and all(part in known for part in parts) else [id_]:
            if part not in seen:
                seen.add(part)
                yield part


def _text(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return ""
    return without_surrogates(as_text(value)).strip()


def _name(value: Any) -> str:
    text = _text(value) if isinstance(value, str) else ""
    return "" if text.lower() in _NOTHING else text


def _arguments(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        try:
            value = LenientReader(value, finished=True).read()
        except NotJson:
            return {}
    return _clean(value) if isinstance(value, dict) else {}


def _schema(value: Any) -> dict[str, Any]:
    """Returns a JSON Schema without its regular expressions, which may take for ever; an empty one if it is too large.
    Whether it is valid shows when the subtask is executed."""
    schema: dict[str, Any] = without_patterns(_arguments(value))
    return schema if len(json.dumps(schema, default=str).encode()) <= MAX_SCHEMA_BYTES else {}


def _clean(value: Any) -> Any:
    """Returns a JSON value without lone surrogates, which no store and no wire takes."""
    if isinstance(value, str):
        return without_surrogates(value)
    if isinstance(value, dict):
        return {without_surrogates(key): _clean(item) for key, item in value.items()}
    return [_clean(item) for item in value] if isinstance(value, list) else value


def _flag(value: Any) -> bool:
    return value.strip().lower() in _TRUE if isinstance(value, str) else value is True or value == 1


def _number(value: Any) -> float:
    if isinstance(value, str) and (match := _NUMBER.match(value)):
        value = float(match[1])
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return 0.0
    try:
        number = float(value)
    except OverflowError:
        return _MAX_NUMBER
    return min(number, _MAX_NUMBER) if number > 0 and math.isfinite(number) else 0.0


def _confidence(value: Any) -> float:
    if value is None or isinstance(value, (bool, list, dict)):
        return 1.0
    number = _number(value)
    if number > 1:
        number /= 100  # per cent
    return min(number, 1.0)


def _is_too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(_MAX_LEVELS):
        level = [
            item
            for each in level
            if isinstance(each, (dict, list))
            for item in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return False
    return True
