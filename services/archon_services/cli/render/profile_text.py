"""The profile of a role: description, tools, instructions, and the expected time and cost of a task."""

from __future__ import annotations

from collections.abc import Iterator

from archon.json_text import json_object
from archon.registry import Profile, Registration
from archon_services.cli.render.plan_text import about
from archon_services.cli.wrapping import wrapped
from archon_services.reports.texts import cost_text, strip_controls


def profile_text(instance: Registration) -> str:
    """Returns the lines about the role of an instance."""
    facts = [
        ("kind", ", ".join(name for name in ("coordinator", "planner", "stateful") if getattr(instance, name))),
        ("capabilities", ", ".join(capability.id for capability in instance.capabilities)),
        ("tools", ", ".join(tool.name for tool in instance.tools)),
        ("depends on", ", ".join(dependency.role for dependency in instance.depends_on)),
        ("answers with", _answer_type(instance.output_schema_json)),
        *_profile_facts(instance.profile),
    ]
    lines = [f"{instance.role}: {instance.description}" if instance.description else instance.role]
    lines += [f"  {name:<12}  {' '.join(value.split())}" for name, value in facts if value]
    return "\n".join(wrapped(strip_controls(line), hang=" " * 16) for line in lines)


def _answer_type(schema_json: str) -> str:
    """Returns the type of a role's answers, if they are JSON: the title of its schema and the names of properties."""
    schema = json_object(schema_json)
    if not schema:
        return ""
    names = ", ".join(map(str, schema.get("properties", {})))
    return " ".join(filter(None, ("JSON", str(schema.get("title", "")), f"({names})" if names else "")))


def expected_text(profile: Profile | None) -> str:
    """Returns time, cost and quality that a role expects of a typical task; empty if it expects nothing."""
    if profile is None:
        return ""
    pieces = [
        about(profile.expected_latency_ms / 1000) if profile.expected_latency_ms else "",
        f"~{cost_text(profile.expected_cost_micro_usd)}" if profile.expected_cost_micro_usd else "",
        f"quality {profile.expected_quality:g}" if profile.expected_quality else "",
    ]
    return ", ".join(filter(None, pieces))


def _profile_facts(profile: Profile | None) -> Iterator[tuple[str, str]]:
    if profile is None:
        return
    yield "expected", expected_text(profile)
    yield "instructions", profile.instructions
    yield "template", profile.prompt_template
    for name, roles in sorted(profile.message_types.items()):
        yield "messages", f"{name} with {roles.replace(',', ', ')}"
