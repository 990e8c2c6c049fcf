"""Checks the declaration of a composite tool before it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from archon_mesh.tools.composite.errors import (
    CompositeCycle,
    CompositeError,
    CompositeTooDeep,
    TypeMismatch,
    UnknownInput,
    UnknownNode,
    UnmappedInput,
)
from archon_mesh.tools.composite.nodes import Graph, Node
from archon_mesh.tools.composite.schema import may_fit, property_of, result_schema, types_of
from archon_mesh.tools.composite.values import Argument, Item, Result, references, shown
from archon_mesh.tools.tool import Tool

MAX_NODES: Final = 100
MAX_DEPTH: Final = 5
"""Nodes of a composite tool; and composite tools inside of each other."""


def check(name: str, graph: Graph) -> None:
    """Raises CompositeError, or a narrower error, or CompositeCycle."""
    if not graph.nodes:
        raise CompositeError(f"composite {name} has no nodes")
    if len(graph.nodes) > MAX_NODES:
        raise CompositeTooDeep(f"composite {name} has {len(graph.nodes)} nodes; at most {MAX_NODES} are allowed")
    _check_names(name, graph)
    _check_cycle(graph)
    arguments: dict[str, tuple[str, Mapping[str, Any]]] = {}
    for node in graph.nodes.values():
        _check_inputs(graph, node, node.tool, node.inputs, f"node {node.id}", arguments)
        if node.compensation is not None:
            what = f"the compensation of node {node.id}"
            _check_inputs(graph, node, node.compensation.tool, node.compensation.inputs, what, arguments)


def check_nesting(tool: Tool, tools_of: Callable[[Tool], list[Tool]], path: list[Tool] | None = None) -> None:
    """Raises CompositeCycle if a composite tool contains itself, and CompositeTooDeep if too many contain each other.
    `tools_of` returns the tools that a tool is composed of."""
    path = [*(path or []), tool]
    if any(tool is each for each in path[:-1]):
        raise CompositeCycle([each.name for each in path])
    inner = tools_of(tool)
    if inner and len(path) > MAX_DEPTH:
        raise CompositeTooDeep(f"composites are nested more than {MAX_DEPTH} deep: {' -> '.join(t.name for t in path)}")
    for each in inner:
        check_nesting(each, tools_of, path)


def _check_names(name: str, graph: Graph) -> None:
    known = ", ".join(graph.nodes)
    for edge in graph.edges():
        for end in (edge.source, edge.target):
            if end not in graph.nodes:
                raise UnknownNode(f"composite {name}: no node {end!r}; nodes: {known}")
    for output in (graph.outputs or {}).values():
        if isinstance(output, Result) and output.node not in graph.nodes:
            raise UnknownNode(f"composite {name}: an output names the node {output.node!r}; nodes: {known}")


def _check_cycle(graph: Graph) -> None:
    after: dict[str, list[str]] = {name: [] for name in graph.nodes}
    for edge in graph.edges():
        after[edge.source].append(edge.target)
    done: set[str] = set()
    path: dict[str, None] = {}

    def visit(name: str) -> None:  # at most MAX_NODES deep
        if name in path:
            names = list(path)
            raise CompositeCycle([*names[names.index(name) :], name])
        if name in done:
            return
        path[name] = None
        for target in after[name]:
            visit(target)
        del path[name]
        done.add(name)

    for name in graph.nodes:
        visit(name)


def _check_inputs(
    graph: Graph,
    node: Node,
    tool: Tool,
    inputs: Mapping[str, Any],
    what: str,
    arguments: dict[str, tuple[str, Mapping[str, Any]]],
) -> None:
    required = [each for each in tool.parameters_schema.get("required", ()) if each not in inputs]
    if required:
        raise UnmappedInput(f"{what}: the parameter {required[0]!r} of tool {tool.name} is not mapped")
    for name, value in inputs.items():
        schema = property_of(tool, name)
        if schema is None:
            parameters = ", ".join(tool.parameters_schema.get("properties", {})) or "none"
            raise UnknownInput(f"{what}: tool {tool.name} has no parameter {name!r}; it has {parameters}")
        found = list(references(value))
        for reference in found:
            if isinstance(reference, Item) and node.for_each is None:
                raise CompositeError(f"{what}: the input {name!r} is an item, but the node has no for_each")
            if isinstance(reference, Result) and reference.node not in graph.nodes:
                raise UnknownNode(f"{what}: the input {name!r} names the node {reference.node!r}")
        where = f"{what}: the input {name!r} of tool {tool.name}"
        if not found:
            _check_constant(value, schema, where)
        elif isinstance(value, Argument):
            _check_argument(value, schema, where, arguments)
        elif isinstance(value, (Result, Item)):
            given = result_schema(graph, value, node)
            if not may_fit(given, schema):
                raise TypeMismatch(f"{where} is {_types(schema)}, and {shown(value)} is {_types(given)}")
    if isinstance(node.for_each, Result) and not may_fit(result_schema(graph, node.for_each), {"type": "array"}):
        raise TypeMismatch(f"node {node.id}: for_each needs a list, and {shown(node.for_each)} is not a list")


def _check_constant(value: Any, schema: Mapping[str, Any], where: str) -> None:
    from jsonschema import Draft202012Validator  # slow to import

    error = next(Draft202012Validator(dict(schema)).iter_errors(value), None)
    if error is not None:
        raise TypeMismatch(f"{where}: {error.message}")


def _check_argument(
    value: Argument, schema: Mapping[str, Any], where: str, arguments: dict[str, tuple[str, Mapping[str, Any]]]
) -> None:
    """The same argument must fit every parameter that it is mapped to."""
    if value.path:
        return
    other_where, other = arguments.setdefault(value.name, (where, schema))
    if not may_fit(other, schema):
        raise TypeMismatch(
            f"{where} is {_types(schema)}, but the same argument {value.name!r} is {_types(other)} as {other_where}"
        )


def _types(schema: Mapping[str, Any]) -> str:
    return " or ".join(sorted(types_of(schema) or {"any"}))
