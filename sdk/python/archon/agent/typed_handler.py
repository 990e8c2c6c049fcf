"""Handlers of roles with an output: their result becomes an answer of one JSON part."""

from __future__ import annotations

import functools
import inspect

from archon.agent.attempt import Handler
from archon.agent.question import Question
from archon.agent.task import TaskContext
from archon.agent.values import Answer
from archon.output import OutputType
from archon.types.part import json_part


def typed_handler(handler: Handler, output: OutputType) -> Handler:
    """Returns a handler whose answers are one JSON part, for an object of the output or its JSON as a text. None, an
    Answer and a Question stay as they are; so does a text if the task is a plan, or a step with a tool or with a schema
    of its own. The handler raises OutputMismatch for anything else."""
    if inspect.iscoroutinefunction(handler):

        @functools.wraps(handler)
        async def awaited(task: TaskContext) -> object:
            return _answer(task, output, await handler(task))

        return awaited

    @functools.wraps(handler)
    def called(task: TaskContext) -> object:
        return _answer(task, output, handler(task))

    return called


def _answer(task: TaskContext, output: OutputType, returned: object) -> object:
    if returned is None or isinstance(returned, Answer | Question):
        return returned
    is_other = bool(task.output_schema_json or task.allowed_tools or task.plan_request is not None)
    if isinstance(returned, str):
        if is_other:
            return returned
        text = returned
    else:
        from pydantic_core import to_json

        text = to_json(returned).decode()
    if not is_other:
        output.parse(text)
    return Answer(parts=[json_part(text)])
