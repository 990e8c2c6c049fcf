"""Tools that the front end of a run executes, for the agent of a task: a call asks the front end, as a tool asks a
person."""

from __future__ import annotations

import math
from typing import Any

from typing_extensions import override

from archon.agent import TaskContext
from archon.errors import FailedPrecondition
from archon_mesh.agent.agent import Agent
from archon_mesh.core.front_end_tools import FrontEndToolSpec, from_answer, from_metadata, to_subject
from archon_mesh.tools.errors import DuplicateTool
from archon_mesh.tools.people.ask import PersonQuestion, ask_person
from archon_mesh.tools.tool import Tool


class FrontEndTool(Tool):
    """A tool of the front end. The attempt ends with a call, and the next one has its result."""

    timeout = math.inf

    def __init__(self, spec: FrontEndToolSpec) -> None:
        self.name, self.description, self.parameters_schema = spec.name, spec.description, spec.parameters

    @override
    async def execute(self, **kwargs: Any) -> Any:
        """Returns the result. Raises FailedPrecondition if the front end has sent an error in its place."""
        question = PersonQuestion(f"The front end has to call {self.name}.", subject=to_subject(self.name, kwargs))
        result, error = from_answer((await ask_person(question)).text)
        if error:
            raise FailedPrecondition(error)
        return result


def offer_front_end_tools(agent: Agent[Any], task: TaskContext, *, can_ask: bool) -> None:
    """Registers the tools of the run's front end with the agent of a task. Its own tool of the same name takes
    precedence. A task that asks for a plan, names the only tools that it may use, or cannot ask is offered none."""
    if not can_ask or task.plan_request is not None or task.allowed_tools:
        return
    for spec in from_metadata(task.metadata):
        try:
            agent.tools.register_tool(FrontEndTool(spec))
        except DuplicateTool:
            continue
