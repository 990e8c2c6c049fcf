"""`archon graph`: who depends on whose answers."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from archon_services.cli.errors import CliError
from archon_services.cli.target.mesh import JsonOption, RegistryOption, find_registry, reaching

if TYPE_CHECKING:
    from archon.registry import Edge, Graph


class Format(StrEnum):
    """What the graph can be written as."""

    TEXT = "text"
    MERMAID = "mermaid"
    DOT = "dot"
    JSON = "json"
    SVG = "svg"


_BY_SUFFIX = {".mmd": Format.MERMAID, ".dot": Format.DOT, ".gv": Format.DOT, ".json": Format.JSON, ".svg": Format.SVG}


def graph(
    form: Annotated[
        Format | None, typer.Option("--format", help="By default what --output ends in, else text.")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="A file to write to.")] = None,
    as_json: JsonOption = False,
    registry: RegistryOption = "",
) -> None:
    """Show who depends on whose answers."""
    form = form or (Format.JSON if as_json else None) or _BY_SUFFIX.get(output.suffix if output else "", Format.TEXT)
    found, alive, coordinators = asyncio.run(_ask(find_registry(registry)))
    text = render(found, alive, form, coordinators)
    if output is None:
        print(text, end="")
        return
    try:
        output.write_text(text)
    except OSError as error:
        raise CliError(f"{output} can't be written: {error.strerror}") from error
    print(f"Wrote {output}.")


async def _ask(registry: str) -> tuple[Graph, Counter[str], frozenset[str]]:
    from archon.registry import RegistryClient

    with reaching("registry", registry):
        async with RegistryClient(registry) as client:
            found = await client.get_graph()
            instances = await client.list_instances()
    coordinators = frozenset(one.role for one in instances if one.coordinator)
    return found, Counter(one.role for one in instances), coordinators


def render(found: Graph, alive: Counter[str], form: Format, coordinators: frozenset[str] = frozenset()) -> str:
    """The graph in one of its forms; `alive` counts the instances of each role."""
    from archon_mesh.core import memory_graph

    if form is Format.JSON:
        return json.dumps(_as_json(found, alive, coordinators), indent=2) + "\n"
    edges = [(edge.upstream, edge.downstream) for edge in found.edges]
    labels = {role: _label(role, alive[role], role in coordinators) for role in found.roles}
    if form is not Format.TEXT:
        draw = {
            Format.MERMAID: memory_graph.to_mermaid,
            Format.DOT: memory_graph.to_dot,
            Format.SVG: memory_graph.to_svg,
        }
        return draw[form](found.roles, edges, labels)
    if not found.roles:
        return "No role lives and no edge is pinned.\n"
    lines = [memory_graph.to_text(found.roles, edges, labels)]
    width = max((len(_arrow(edge)) for edge in found.edges), default=0)
    lines += [f"{_arrow(edge):<{width}}  {_origin(edge)}\n" for edge in found.edges]
    for refused in found.refused:
        why = f"it would close {refused.cycle}" if refused.cycle else "it comes with the next beat"
        lines.append(f"{_arrow(refused.edge)}  refused, {why}\n")
    return lines[0] + ("\n" if len(lines) > 1 else "") + "".join(lines[1:])


def _label(role: str, alive: int, coordinates: bool) -> str:
    said = f"{alive} alive" if alive else "nobody"
    return f"{role} ({said}{', coordinates' if coordinates else ''})"


def _arrow(edge: Edge) -> str:
    return f"{edge.upstream} -> {edge.downstream}"


def _origin(edge: Edge) -> str:
    count = len(edge.declared_by)
    declared = f"declared by {count} instance{'s' if count != 1 else ''}" if count else ""
    return ", ".join(filter(None, (declared, "pinned" if edge.pinned else "", edge.policy.value)))


def _as_json(found: Graph, alive: Counter[str], coordinators: frozenset[str]) -> dict[str, Any]:
    def plain(edge: Edge) -> dict[str, Any]:
        return {
            "upstream": edge.upstream,
            "downstream": edge.downstream,
            "policy": edge.policy.value,
            "pinned": edge.pinned,
            "declared_by": list(edge.declared_by),
        }

    return {
        "revision": found.revision,
        "roles": [
            {"role": role, "instances": alive[role], "coordinator": role in coordinators} for role in found.roles
        ],
        "edges": [plain(edge) for edge in found.edges],
        "refused": [{"edge": plain(one.edge), "cycle": one.cycle} for one in found.refused],
    }
