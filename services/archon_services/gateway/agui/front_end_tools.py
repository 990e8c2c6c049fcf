"""Tools of front ends: offered to the agents of a run, called as questions, answered by messages of tools."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from ag_ui.core import RunAgentInput, ToolMessage

from archon.errors import FieldViolation, FrontEndToolsRefused, InvalidArgument
from archon.json_text import json_object
from archon.types.part import Part, json_part
from archon.types.run_question import RunQuestion
from archon_mesh.core.front_end_tools import (
    FrontEndCall,
    FrontEndToolSpec,
    from_subject,
    to_answer_json,
    to_metadata,
)
from archon_services.gateway.agui.contents import text_of
from archon_services.gateway.agui.inputs import history_of

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Names that the models of all providers take."""

_MARK: Final = "/front-end:"
"""In the id of a call, between the task and the rest of the question's id."""


def metadata_of(source: RunAgentInput, own: Collection[str]) -> Mapping[str, str]:
    """Returns the metadata by which a run offers the tools of an input. `own` are the names of the agent's tools.
    Raises InvalidArgument, and FrontEndToolsRefused."""
    tools = source.tools or ()
    violations = [
        FieldViolation(f"tools.{number}", "a name has 1 to 64 letters, digits, `_` and `-`, and is in the list once")
        for number, tool in enumerate(tools)
        if not _NAME.fullmatch(tool.name) or any(tool.name == other.name for other in tools[:number])
    ]
    specs: list[FrontEndToolSpec] = []
    for number, tool in enumerate(tools):
        parameters = {"type": "object", "properties": {}} if not tool.parameters else tool.parameters
        if not isinstance(parameters, dict) or parameters.get("type", "object") != "object":
            violations.append(FieldViolation(f"tools.{number}.parameters", "expected a JSON Schema of type object"))
            continue
        specs.append(FrontEndToolSpec(tool.name, tool.description, {**parameters, "type": "object"}))
    if violations:
        text = "; ".join(f"{each.field}: {each.description}" for each in violations)
        raise InvalidArgument(text, field_violations=violations)
    if taken := sorted({tool.name for tool in tools} & set(own)):
        raise FrontEndToolsRefused(f"the agent has a tool {taken[0]} of its own")
    try:
        return to_metadata(specs)
    except ValueError as raised:
        raise FrontEndToolsRefused(str(raised)) from None


def call_of(question: RunQuestion) -> FrontEndCall | None:
    """Returns the call that a question is; None if it is a question to a person."""
    return None if question.is_approval else from_subject(json_object(question.subject_json))


def call_id_of(question: RunQuestion) -> str:
    """Returns the id of the call that a question is: by it a later message of a tool names the question."""
    return f"{question.task_id}{_MARK}{question.input_id.removeprefix(f'{question.task_id}/')}"


def results_of(source: RunAgentInput) -> dict[str, ToolMessage]:
    """Returns the results of calls that the newest messages of an input have, by the ids of the questions. Once the
    user has said more, the results before are history."""
    results: dict[str, ToolMessage] = {}
    for message in reversed(history_of(source)):
        if not isinstance(message, ToolMessage):
            break
        task_id, mark, rest = message.tool_call_id.partition(_MARK)
        if mark:
            results.setdefault(f"{task_id}/{rest}", message)
    return results


def run_of(input_id: str) -> str:
    """Returns the run that asks a question, by the id of the question."""
    return input_id.partition("/")[0].rpartition(".")[0]


def answer_of(message: ToolMessage) -> Sequence[Part]:
    """Returns the answer that the result of a call is."""
    return [json_part(to_answer_json(text_of(message.content), message.error or ""))]
