"""The types of inputs: the parameters of a composite tool, and whether a value can ever fit a parameter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from archon_mesh.tools.composite.nodes import Graph, Node
from archon_mesh.tools.composite.values import REQUIRED, Argument, Item, Result
from archon_mesh.tools.tool import Tool

Schema = Mapping[str, Any]

_MAX_REFS: Final = 8
"""References of a schema that are followed into each other; a recursive schema is unknown below."""


def parameters_of(graph: Graph, declared: Mapping[str, Schema]) -> dict[str, Any]:
    """Returns the JSON Schema of a composite tool's arguments, with the types of the parameters they are mapped to."""
    found: dict[str, list[Schema]] = {}
    required: dict[str, None] = {}
    for argument, schema in _uses(graph):
        if schema is not None and schema not in found.setdefault(argument.name, []):
            found[argument.name].append(schema)
        found.setdefault(argument.name, [])
        if argument.default is REQUIRED:
            required[argument.name] = None
    properties = {
        name: dict(declared[name]) if name in declared else _combined(schemas) for name, schemas in found.items()
    }
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def property_of(tool: Tool, name: str) -> Schema | None:
    """Returns the schema of a tool's parameter; None if it has none of this name; empty if anything fits."""
    properties = tool.parameters_schema.get("properties", {})
    if name in properties:
        return resolved(properties[name], tool.parameters_schema)
    return None if tool.parameters_schema.get("additionalProperties") is False or properties else {}


def resolved(schema: Any, root: Schema, depth: int = 0) -> Schema:
    """Returns a schema without references into the root's definitions."""
    if not isinstance(schema, Mapping):
        return {}
    if isinstance(reference := schema.get("$ref"), str):
        target: Any = root
        for step in reference.removeprefix("#/").split("/"):
            target = target.get(step) if isinstance(target, Mapping) else None
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        return {**resolved(target, root, depth + 1), **rest} if depth < _MAX_REFS else rest
    return {key: _resolved_value(key, value, root, depth) for key, value in schema.items() if key != "$defs"}


def _resolved_value(key: str, value: Any, root: Schema, depth: int) -> Any:
    if key in ("properties", "patternProperties") and isinstance(value, Mapping):
        return {name: resolved(each, root, depth) for name, each in value.items()}
    if key in ("items", "additionalProperties", "not") and isinstance(value, Mapping):
        return resolved(value, root, depth)
    if key in ("anyOf", "oneOf", "allOf", "prefixItems") and isinstance(value, list):
        return [resolved(each, root, depth) for each in value]
    return value


def result_schema(graph: Graph, reference: Result | Argument | Item, node: Node | None = None) -> Schema:
    """Returns the known schema of a reference's value; empty if there is none."""
    if isinstance(reference, Result):
        source = graph.nodes.get(reference.node)
        schema = source.tool.result_schema if source is not None else None
        known = resolved(schema, schema) if schema is not None else {}
        if source is not None and source.for_each is not None:
            known = {"type": "array", "items": known}
        return schema_at(known, reference.path)
    if isinstance(reference, Item) and node is not None and isinstance(node.for_each, Result):
        listed = result_schema(graph, node.for_each)
        return schema_at(listed.get("items", {}), reference.path)
    return {}


def schema_at(schema: Schema, path: str) -> Schema:
    """Returns the schema of a part of a value; empty if it is unknown."""
    for step in path.split(".") if path else ():
        inner = schema.get("properties", {}).get(step) or (schema.get("items") if step.isdigit() else None)
        schema = inner if isinstance(inner, Mapping) else {}
    return schema


def may_fit(source: Schema, target: Schema) -> bool:
    """Whether some value of one schema can have a type of the other."""
    given, wanted = types_of(source), types_of(target)
    if given is None or wanted is None:
        return True
    return (
        bool(given & wanted)
        or ("integer" in given and "number" in wanted)
        or ("number" in given and "integer" in wanted)
    )


def types_of(schema: Schema) -> set[str] | None:
    """Returns the JSON types that a schema allows; None for any."""
    declared = schema.get("type")
    if isinstance(declared, str):
        return {declared}
    if isinstance(declared, list):
        return set(declared)
    for key in ("anyOf", "oneOf"):
        if isinstance(schema.get(key), list):
            types = [types_of(each) for each in schema[key]]
            return None if None in types else set().union(*(each for each in types if each))
    return None


def _uses(graph: Graph) -> Iterator[tuple[Argument, Schema | None]]:
    """Yields each use of an argument with the schema that it must fit, if that is known."""
    for node in graph.nodes.values():
        for name, value in node.inputs.items():
            yield from _uses_in(value, property_of(node.tool, name))
        if isinstance(node.for_each, Argument):
            items = [property_of(node.tool, name) for name, value in node.inputs.items() if value == Item()]
            listed = {"type": "array", "items": _combined([each for each in items if each]), "maxItems": node.max_items}
            yield node.for_each, None if node.for_each.path else listed
        if node.when is not None and isinstance(node.when.value, Argument):
            yield node.when.value, None
        if node.compensation is not None:
            for name, value in node.compensation.inputs.items():
                yield from _uses_in(value, property_of(node.compensation.tool, name))
    for edge in graph.declared:
        if edge.when is not None and isinstance(edge.when.value, Argument):
            yield edge.when.value, None
    for output in (graph.outputs or {}).values():
        if isinstance(output, Argument):
            yield output, None


def _uses_in(value: Any, schema: Schema | None) -> Iterator[tuple[Argument, Schema | None]]:
    if isinstance(value, Argument):
        yield value, None if value.path else schema
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from _uses_in(item, (schema or {}).get("properties", {}).get(name))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _uses_in(item, (schema or {}).get("items"))


def _combined(schemas: list[Schema]) -> dict[str, Any]:
    distinct = [schema for schema in schemas if schema]
    if len(distinct) < 2:
        return dict(distinct[0]) if distinct else {}
    return {"allOf": [dict(schema) for schema in distinct]}
