"""The run of a delivery: texts of the goal, the session and the arguments of a workflow are templates.

Values of a delivery are data: a template within them is plain text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.errors import InvalidArgument
from archon.threads import on_thread
from archon.wire import JSON_TYPE
from archon_mesh.workflows.sandbox import Template, one_expansion, template

MEDIA_TYPE: Final = "application/vnd.archon.workflow+json"
"""Of the part of a goal that has a workflow and its arguments: `archon_mesh.workflows.role`."""

NAMES: Final = frozenset({"body", "event", "delivery", "hook"})
"""The values that templates read."""


def check_templates(run: pb.SubmitRunRequest) -> None:
    """Raises InvalidArgument if a template of a run is invalid, or reads another value."""

    def check(text: str) -> str:
        _checked(text)
        return text

    filled = pb.SubmitRunRequest()
    filled.CopyFrom(run)
    _each(filled, check, lambda text: check(text))


async def filled_run(run: pb.SubmitRunRequest, values: Mapping[str, Any], *, attach_body: bool) -> pb.SubmitRunRequest:
    """Returns a run with the values of a delivery, and its body as a part of the goal if `attach_body`. Raises
    InvalidArgument if a value is missing or a template exceeds its limits."""
    filled = pb.SubmitRunRequest()
    filled.CopyFrom(run)
    found: list[Template] = []
    _each(filled, lambda text: _noted(found, text), lambda text: _noted(found, text))
    try:
        if all(each.is_plain for each in found):
            _fill(filled, values)
        else:
            _, error = await on_thread(lambda: _fill(filled, values), "templates of a hook")
            if error is not None:
                raise error
    except InvalidArgument as error:
        raise InvalidArgument(f"the templates of the hook cannot be filled: {error.message}") from None
    if attach_body:
        filled.goal.append(
            common_pb2.Part(data_json=json.dumps(values["body"], ensure_ascii=False), media_type=JSON_TYPE)
        )
    return filled


def _fill(run: pb.SubmitRunRequest, values: Mapping[str, Any]) -> None:
    from archon_mesh.workflows.parameters import checked_arguments
    from archon_mesh.workflows.workflow import Workflow

    with one_expansion():
        _each(run, lambda text: _checked(text).render(values), lambda text: _checked(text).value(values))
    for part in run.goal:
        if part.media_type == MEDIA_TYPE:
            document = json.loads(part.data_json)
            workflow = Workflow.from_json_value(document["workflow"])
            checked = checked_arguments(workflow.reference, workflow.parameters, document["arguments"])
            part.data_json = json.dumps({**document, "arguments": checked}, ensure_ascii=False)


def _each(run: pb.SubmitRunRequest, text: Callable[[str], str], argument: Callable[[str], Any]) -> None:
    """Replaces each template of a run by the result of `text`, and those in arguments of a workflow by the result of
    `argument`."""
    run.session_id = text(run.session_id) if run.session_id else ""
    has_workflow = any(part.media_type == MEDIA_TYPE for part in run.goal)
    for part in run.goal:
        if part.WhichOneof("content") == "text" and not has_workflow:  # its text is the workflow's description
            part.text = text(part.text)
        elif part.media_type == MEDIA_TYPE:
            document = _workflow(part.data_json)
            arguments = {
                name: argument(value) if isinstance(value, str) else value
                for name, value in document["arguments"].items()
            }
            part.data_json = json.dumps({**document, "arguments": arguments}, ensure_ascii=False)


def _workflow(data: str) -> dict[str, Any]:
    from archon_mesh.workflows.workflow import Workflow

    try:
        document = json.loads(data)
        Workflow.from_json_value(document["workflow"])
        return {**document, "arguments": dict(document["arguments"])}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InvalidArgument(f"the workflow of the run cannot be read: {error}") from None


def _noted(found: list[Template], text: str) -> str:
    found.append(_checked(text))
    return text


def _checked(text: str) -> Template:
    checked = template(text)
    if unknown := sorted(checked.names - NAMES):
        known = ", ".join(sorted(NAMES))
        raise InvalidArgument(f"the template of a hook reads {unknown[0]!r}; there are {known}, as in {{{{ body.x }}}}")
    return checked
