"""Workflows for tests, from YAML."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from archon_mesh.engine.plan import SubTask
from archon_mesh.workflows import StepResult, Workflow, WorkflowFolder, expand

TRIP = """
name: trip
version: 2
description: Books a trip to a city
parameters:
  city: {description: where to}
  nights: {type: integer, default: 2}
steps:
  - tool: search
    args: {to: "{{ city }}"}
    save_as: flights
  - for_each: "{{ flights }}"
    as: flight
    save_as: texts
    steps:
      - role: writer
        task: "Describe {{ flight.number }}"
  - if: "{{ flights | length > 1 }}"
    then:
      - role: writer
        task: "Compare: {{ texts | join('; ') }}"
    else:
      - role: writer
        task: "The only one: {{ texts[0] }}"
"""


def load(folder: Path, text: str = TRIP, **others: str) -> Workflow:
    """Returns a workflow; `others` are further files by name."""
    for name, content in {"main": text, **others}.items():
        (folder / f"{name}.yaml").write_text(content)
    from archon_mesh.workflows import load_workflow

    return load_workflow(folder / "main.yaml", WorkflowFolder(folder).find)


def known(workflow: Workflow, results: Mapping[str, Any] | None = None, **arguments: Any) -> dict[str, SubTask]:
    """Returns the subtasks that are known with these results, by id; a result that is an exception is a failure."""
    ended = {
        id_: StepResult(error=str(value)) if isinstance(value, Exception) else StepResult(value)
        for id_, value in (results or {}).items()
    }
    return {subtask.id: subtask for subtask in expand(workflow, arguments, ended).subtasks}
