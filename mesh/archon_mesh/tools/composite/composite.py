"""Composite tools: a graph of calls of other tools that a model calls like one tool."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Literal

from typing_extensions import override

from archon.errors import FailedPrecondition, InvalidArgument
from archon_mesh.tools.composite import drawing
from archon_mesh.tools.composite.errors import CompositeError
from archon_mesh.tools.composite.execution import COMPENSATION_SECONDS, Execution
from archon_mesh.tools.composite.nodes import (
    ATTEMPTS,
    MAX_ITEMS,
    ON_ERROR,
    PARALLEL,
    Compensation,
    Edge,
    Graph,
    Node,
    OnError,
)
from archon_mesh.tools.composite.schema import parameters_of
from archon_mesh.tools.composite.validation import check, check_nesting
from archon_mesh.tools.composite.values import Argument, Result, When
from archon_mesh.tools.engine import ToolExecutionEngine
from archon_mesh.tools.function import FunctionTool
from archon_mesh.tools.people.ask import bind_resumable_call
from archon_mesh.tools.registry import Registration, ToolRegistry
from archon_mesh.tools.result import ToolResult
from archon_mesh.tools.tool import MAX_RETRIES, Tool

SECONDS: Final = 120.0
"""Seconds of a call of a composite tool, without compensations."""

MAX_PARALLEL: Final = 16
"""Calls of a composite tool at the same time."""


class CompositeTool(Tool):
    """A tool that is a graph of calls of other tools; independent ones run at the same time.

    Add nodes, and edges where an order or a branch does not follow from the inputs; `validate` checks the graph, and
    also runs before the first call. `outputs` names the parts of the result; by default the results of the nodes that
    no other one follows. Nodes are called through the engine that calls the composite: with its permissions, quota,
    retries and breakers. Each call has its own context.
    """

    wants_engine = True

    def __init__(
        self,
        name: str,
        description: str,
        *,
        outputs: Mapping[str, Argument | Result] | None = None,
        parameters: Mapping[str, Mapping[str, Any]] | None = None,
        seconds: float = SECONDS,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        random: Callable[[], float] = random.random,
    ) -> None:
        """`parameters` describes arguments whose schema does not follow from the nodes; `seconds` limits a call. Raises
        InvalidArgument if the name is not an identifier."""
        if not name.isidentifier():
            raise InvalidArgument(f"invalid tool name {name!r}: not an identifier")
        self.name = name
        self.description = description
        self.seconds = seconds
        self.timeout = seconds + COMPENSATION_SECONDS
        self._graph = Graph(outputs=dict(outputs) if outputs is not None else None)
        self._declared = dict(parameters or {})
        self._registrations: dict[int, Registration] = {}
        self._is_valid = False
        self._sleep = sleep
        self._random = random
        self._derive()

    def add_node(
        self,
        node_id: str,
        tool: Tool | Callable[..., Any],
        inputs: Mapping[str, Any] | None = None,
        *,
        for_each: Argument | Result | None = None,
        max_items: int = MAX_ITEMS,
        parallel: int = PARALLEL,
        when: When | None = None,
        join: Literal["all", "any"] = "all",
        on_error: OnError = "abort",
        attempts: int = ATTEMPTS,
        compensate_with: Tool | Callable[..., Any] | None = None,
        compensate_inputs: Mapping[str, Any] | None = None,
    ) -> CompositeTool:
        """Adds a call of a tool and returns the composite.

        `inputs` maps parameters to an Argument, a Result of another node, an Item, or a constant. With `for_each` the
        tool is called for each item of a list, `parallel` calls at a time; the result is the list of results, in
        order. A node runs if `when` holds and its incoming edges are active: all of them, or with `join` any.
        `on_error`: `abort` ends the composite, `continue` goes on without a result, `retry` makes up to `attempts`
        calls, and then aborts. `compensate_with` is called if the composite is aborted after this node has completed;
        its inputs may refer to the result of this node. Raises InvalidArgument for an invalid value or a known id.
        """
        self._check_changeable()
        problems = [
            (not node_id or not node_id.replace("-", "_").isidentifier(), f"invalid node id {node_id!r}"),
            (node_id in self._graph.nodes, f"node {node_id!r} exists already"),
            (on_error not in ON_ERROR, f"on_error must be {', '.join(ON_ERROR)}, not {on_error!r}"),
            (join not in ("all", "any"), f"join must be all or any, not {join!r}"),
            (not 1 <= max_items <= 10_000, "max_items must be 1 to 10,000"),
            (not 1 <= parallel <= MAX_PARALLEL, f"parallel must be 1 to {MAX_PARALLEL}"),
            (not 1 <= attempts <= MAX_RETRIES + 1, f"attempts must be 1 to {MAX_RETRIES + 1}"),
        ]
        for is_wrong, message in problems:
            if is_wrong:
                raise CompositeError(f"composite {self.name}: {message}")
        compensation = None
        if compensate_with is not None:
            compensation = Compensation(self._tool(compensate_with), dict(compensate_inputs or {}))
        self._graph.nodes[node_id] = Node(
            *(node_id, self._tool(tool), dict(inputs or {}), for_each, max_items, parallel, when, join, on_error),
            *(attempts, compensation),
        )
        self._derive()
        return self

    def add_edge(self, src: str, dst: str, *, when: When | None = None) -> CompositeTool:
        """Lets `dst` run after `src`, or only if the condition holds, and returns the composite."""
        self._check_changeable()
        self._graph.declared.append(Edge(src, dst, when))
        self._derive()
        return self

    def validate(self) -> None:
        """Checks nodes, edges, inputs and types. Raises UnknownNode, CompositeCycle, UnmappedInput, UnknownInput,
        TypeMismatch, CompositeTooDeep or CompositeError."""
        if taken := sorted({"engine", "session_id", "agent_state"} & self.parameters_schema["properties"].keys()):
            raise CompositeError(f"composite {self.name}: an argument cannot be called {taken[0]}")
        check(self.name, self._graph)
        check_nesting(self, _inner_tools)
        for tool in _inner_tools(self):
            if isinstance(tool, CompositeTool):
                tool.validate()
        self._is_valid = True

    def to_mermaid(self) -> str:
        """Returns the graph as a flowchart of Mermaid."""
        return drawing.mermaid(self._graph)

    def to_dot(self) -> str:
        """Returns the graph as a digraph of Graphviz."""
        return drawing.dot(self.name, self._graph)

    @override
    async def execute(self, **kwargs: Any) -> ToolResult:
        """Runs the graph. The result of an aborted call is an error, with partial results in its metadata."""
        engine: ToolExecutionEngine | None = kwargs.pop("engine", None)
        session_id: str = kwargs.pop("session_id", "")
        agent_state: object = kwargs.pop("agent_state", None)
        if not self._is_valid:
            self.validate()
        engine = engine or ToolExecutionEngine(ToolRegistry([self]))
        names = {key: self._registration(engine, each) for key, each in self._registrations.items()}
        nested = engine.for_registry(ToolRegistry.of([*engine.registry.registrations, *names.values()]))
        for inner in _all_registrations(self):  # before anything has acted
            engine.check_permission(self._registration(engine, inner).name, inner.tool, session_id)
        execution = Execution(
            self._graph,
            kwargs,
            lambda tool, arguments: nested.run(
                names[id(tool)].name, arguments, agent_state=agent_state, session_id=session_id
            ),
            seconds=self.seconds,
            parallel=MAX_PARALLEL,
            sleep=self._sleep,
            random=self._random,
        )
        with bind_resumable_call(None):  # a question ends no attempt half-way through a graph
            return await execution.run(self.name)

    def _tool(self, tool: Tool | Callable[..., Any]) -> Tool:
        """Returns a tool that has a registration of this composite, so that its breaker outlives the call."""
        made = tool if isinstance(tool, Tool) else FunctionTool(tool)
        if id(made) not in self._registrations:
            taken = {each.name for each in self._registrations.values()}
            registration = ToolRegistry([made]).find(made.name)
            assert registration is not None
            if made.name in taken:
                raise CompositeError(f"composite {self.name}: two different tools have the name {made.name!r}")
            self._registrations[id(made)] = registration
        return made

    def _registration(self, engine: ToolExecutionEngine, own: Registration) -> Registration:
        """Returns the engine's registration of a tool, if it has one: health, rate and names of policies are one."""
        return next((each for each in engine.registry.registrations if each.tool is own.tool), own)

    def _derive(self) -> None:
        self.parameters_schema = parameters_of(self._graph, self._declared)
        self._is_valid = False

    def _check_changeable(self) -> None:
        if self._is_valid:
            raise FailedPrecondition(f"composite {self.name} is validated and cannot be changed any more")


def _inner_tools(tool: Tool) -> list[Tool]:
    return [each.tool for each in tool._registrations.values()] if isinstance(tool, CompositeTool) else []


def _all_registrations(tool: Tool) -> list[Registration]:
    own = list(tool._registrations.values()) if isinstance(tool, CompositeTool) else []
    return [*own, *(deeper for each in own for deeper in _all_registrations(each.tool))]
