"""Writes docs/reference/agent-file.md from the schema: `python -m tests.unit.docs.agent_file_page`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from pydantic.fields import FieldInfo

from archon_mesh import plain_yaml
from archon_mesh.declared import document, schema
from archon_mesh.declared.arbiter_part import ArbiterPart
from archon_mesh.declared.load import MAX_DEPTH
from archon_mesh.declared.part import Part
from archon_mesh.declared.rule_part import ToolRulePart
from archon_mesh.declared.schema import OrText
from tests.unit.docs.tables import REFERENCE, code, kind_of, table

PAGE: Final = REFERENCE / "agent-file.md"
EXAMPLE: Final = Path(__file__).parents[3] / "examples" / "librarian.yaml"
MCP_EXAMPLE: Final = EXAMPLE.with_name("clerk.yaml")
ARBITER_EXAMPLE: Final = EXAMPLE.with_name("judge.yaml")

HEAD: Final = """# The file of an agent

One YAML file declares an agent. `archon new agent NAME` writes a first one, with a JSON Schema for editors;
`archon chat FILE` talks to the agent, and `archon serve FILE` serves it as a role of the running mesh;
`archon serve FILE --check` only checks the file. All mistakes are listed, each with its line. Only `name` is required.

In texts `${NAME}` is replaced by an environment variable, `${NAME:-text}` by `text` if the variable is unset or empty,
and `$$` by a dollar sign. A file may have BYTES bytes, VALUES values and DEPTH levels; files that name further files,
FILES levels of them. Imports are searched in the folder of the file first. A file is code: it runs with the rights of
its process.

This page is written by `python -m tests.unit.docs.agent_file_page` from the schema; a test compares them.
"""

PARTS: Final[dict[str, type[Part]]] = {
    "The agent": schema.AgentFile,
    "The model": schema.ModelPart,
    "A tool or a middleware": schema.Imported,
    "The memory": schema.MemoryPart,
    "The tool policy": schema.ToolPolicyPart,
    "A rule": ToolRulePart,
    "An MCP server": schema.McpPart,
    "A remote tool": schema.RemoteToolPart,
    "A sub-agent": schema.SubAgentPart,
    "The role": schema.RolePart,
    "The arbiter": ArbiterPart,
    "The profile": schema.ProfilePart,
    "A capability": schema.CapabilityPart,
    "An edge": schema.EdgePart,
}

TEXTS: Final = {
    "A sub-agent": "A sub-agent has either the keys of [the agent](#the-agent), or `file`, or `role`. With `file` and "
    "`role` only\n`description`, `stateless` and `timeout` apply; with `role`, `timeout` is in seconds of one delegation. "
    "It has these\nkeys besides, or with another meaning:",
}

_ANCHORS: Final = {part.__name__: title for title, part in PARTS.items()}


def page() -> str:
    """Renders the page."""
    head = HEAD
    limits = {"BYTES": document.MAX_BYTES, "VALUES": plain_yaml.MAX_VALUES, "DEPTH": plain_yaml.MAX_DEPTH}
    for name, limit in {**limits, "FILES": MAX_DEPTH}.items():
        head = head.replace(name, f"{limit:,}")
    links = [f"[{path.name}](../../examples/{path.name})" for path in (EXAMPLE, MCP_EXAMPLE, ARBITER_EXAMPLE)]
    text = (
        f"{links[0]}, with every key; those of an MCP server are in {links[1]} ([MCP](../mcp.md)), those of an arbiter\n"
        f"in {links[2]} ([conflicts](../conflicts.md)):"
    )
    example = f"\n## A complete example\n\n{text}\n\n"
    parts = [head, example, f"```yaml\n{EXAMPLE.read_text()}```\n"]
    for title, part in PARTS.items():
        parts.append(f"\n## {title}\n\n{_text(title, part)}\n\n")
        parts.append(table(("key", "value", "default", "meaning"), [_row(*key) for key in keys(part).items()]))
    return "".join(parts)


def keys(part: type[Part]) -> dict[str, FieldInfo]:
    """Returns the fields of a part by key; of a sub-agent those that differ from an agent's."""
    inherited = schema.AgentPart.model_fields if part is schema.SubAgentPart else {}
    return {
        field.alias or name: field
        for name, field in part.model_fields.items()
        if name not in inherited or field.description != inherited[name].description
    }


def _text(title: str, part: type[Part]) -> str:
    text = TEXTS.get(title, (part.__doc__ or "").replace("\n", " ").strip())
    if issubclass(part, OrText):
        text += f" A text in its place is the value of `{part.short}`."
    return text


def _row(key: str, field: FieldInfo) -> tuple[str, str, str, str]:
    kind = kind_of(field.annotation, field.metadata)
    for name, title in _ANCHORS.items():
        kind = re.sub(rf"\b{name}\b", f"[{_noun(title)}](#{title.lower().replace(' ', '-')})", kind)
    default = "required" if field.is_required() else _shown(field.get_default(call_default_factory=True))
    return code(key), kind, default, field.description or ""


def _noun(title: str) -> str:
    return re.sub(r"^(The|An?) ", "", title)


def _shown(default: Any) -> str:
    """Shows a default as it is written in YAML; an empty one as nothing."""
    if isinstance(default, bool):
        return code(str(default).lower())
    if default in (None, "", [], {}) or isinstance(default, Part):
        return ""
    return code(f"{default:g}" if isinstance(default, float) else str(default))


if __name__ == "__main__":
    PAGE.write_text(page())
