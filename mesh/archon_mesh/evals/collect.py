"""Makes cases of recorded runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from archon.errors import FailedPrecondition
from archon.json_text import json_or
from archon.types import Run, RunEvent
from archon_mesh.evals.case import Case, case_of, goal_document
from archon_mesh.evals.trajectory import called_tools
from archon_mesh.recorded import RecordedRun

MAX_KEYS: Final = 200
"""Keys of an object that an inferred schema describes."""

MAX_DEPTH: Final = 12


def case_from_run(recorded: RecordedRun, expect: Sequence[dict[str, Any]] = (), *, case_id: str = "") -> Case:
    """Returns a case with the goal, the strategy and the roles of a run that has completed, and its answer.

    `expect` are expectations as JSON objects; without them, the answer has to be the recorded one. An `exact` without
    an answer compares with the recorded answer, and a `schema`, `tools` or `roles` without its own key takes it from
    the run. The case has neither the session of the run nor its budget: its runs start afresh.

    Raises FailedPrecondition if the run has not completed, its calls are not recorded where they are asked for, or the
    answer is not JSON for a schema; InvalidArgument if an expectation is invalid.
    """
    run = recorded.run
    if not run.answers:
        raise FailedPrecondition(
            f"run {run.run_id} has no answer: it is {run.state}, and a case is made of one that has"
        )
    roles, planner = _submitted(run, recorded.events)
    document: dict[str, Any] = {
        "id": case_id or run.run_id[:12],
        "goal": goal_document(run.goal),
        "roles": roles,
        "strategy": run.strategy,
        "planner": planner,
        "expect": [_completed(dict(each), recorded) for each in expect or ({"scorer": "exact"},)],
        "answer": recorded.answer,
        "answers": _people(recorded.events),
        "origin": run.run_id,
    }
    return case_of(document, f"the case of run {run.run_id}")


def _submitted(run: Run, events: Sequence[RunEvent]) -> tuple[list[str], str]:
    """Returns the roles that the run was submitted for, and its planner; from its tasks if its events are deleted."""
    first = events[0].data if events and events[0].type == "submitted" else {}
    own = [task for task in run.tasks if not task.parent_task_id]
    if run.strategy == "plan":
        planner = next((task.role for task in own if not task.step_id), "")
        targets = [str(target["role"]) for target in first.get("plan_targets", ())]
        return targets or sorted({task.role for task in own if task.step_id}), planner
    if run.strategy == "agent":
        return [task.role for task in own[:1]], ""
    return list(first.get("roles", ())) or list(dict.fromkeys(task.role for task in own)), ""


def _people(events: Sequence[RunEvent]) -> list[str]:
    """Returns the replies of people, in order: `approve` and `reject` for decisions without a replacement."""
    answers = []
    for event in events:
        if event.type == "input_given":
            texts = [part.get("text") or part.get("data_json") or "" for part in event.data["parts"]]
            decision = event.data.get("decision", "")
            answers.append(decision if decision in ("approve", "reject") else "\n\n".join(filter(None, texts)))
    return answers


def _completed(expectation: dict[str, Any], recorded: RecordedRun) -> dict[str, Any]:
    """Returns an expectation with the keys that it takes from the run."""
    match expectation.get("scorer"):
        case "schema" if "json_schema" not in expectation:
            value = json_or(recorded.answer, _NOT_JSON)
            if value is _NOT_JSON:
                raise FailedPrecondition(f"the answer of run {recorded.run.run_id} is not JSON: it has no schema")
            return expectation | {"json_schema": inferred_schema(value)}
        case "tools" if "names" not in expectation:
            calls = called_tools(recorded.records)
            if recorded.run.usage.tool_calls and not calls:
                message = f"the tool calls of run {recorded.run.run_id} are not recorded (ARCHON_RECORDS of its agents)"
                raise FailedPrecondition(message)
            return {"order": "exact"} | expectation | {"names": [call.name for call in calls]}
        case "roles" if "names" not in expectation:
            return {"only": True} | expectation | {"names": list(recorded.roles)}
    return expectation


_NOT_JSON: Final = object()


def inferred_schema(value: Any, depth: int = MAX_DEPTH) -> dict[str, Any]:
    """Returns a JSON Schema for values like this one: the types, and the keys of objects as required; further keys are
    allowed. Elements of an array have one of the schemas of its elements."""
    if value is None or depth == 0:
        return {"type": "null"} if value is None else {}
    if isinstance(value, bool):
        return {"type": "boolean"}
    if isinstance(value, int | float):
        return {"type": "number"}
    if isinstance(value, str):
        return {"type": "string"}
    if isinstance(value, list):
        items = list({repr(schema): schema for schema in (inferred_schema(each, depth - 1) for each in value)}.values())
        if not items:
            return {"type": "array"}
        return {"type": "array", "items": items[0] if len(items) == 1 else {"anyOf": items}}
    keys = list(value)[:MAX_KEYS]
    properties = {key: inferred_schema(value[key], depth - 1) for key in keys}
    return {"type": "object", "properties": properties, "required": keys}
