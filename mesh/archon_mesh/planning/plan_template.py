"""The interface between a planner and the templates of plans that it may answer with."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from archon.json_text import json_or
from archon_mesh.core.words import topic_stems
from archon_mesh.engine.plan import Task

TEMPLATE_KEY: Final = "workflow"
"""The value of a plan's context that says which template made it, and in which version; empty if none did."""

ARGUMENTS_KEY: Final = "workflow_arguments"
"""The value of a plan's context that has the arguments of the template."""

MIN_SHARED: Final = 3
"""Words that a query must share with a template, so that the template is chosen without a model."""

MIN_PART: Final = 0.6
"""The part of the query's words that the template must have."""


class TemplatePlan(Protocol):
    """The plan of a template with its arguments."""

    async def plan(self, goal: str, task_id: str, initial_context: Mapping[str, Any] | None = None) -> Task:
        """Returns the known part of the plan before anything is executed. Raises InvalidArgument."""
        ...

    async def expand(self, task: Task, places: Sequence[str]) -> Task:
        """Returns the task with the subtasks that its results have made known. Raises InvalidArgument."""
        ...

    def answer(self, task: Task) -> str | None:
        """Returns the answer of the executed task, None if it has none of its own."""
        ...


class PlanTemplate(Protocol):
    """A template of a plan, such as a workflow."""

    @property
    def name(self) -> str:
        """The name by which a model chooses it."""
        ...

    @property
    def reference(self) -> str:
        """Name and version, as in `trip@2`."""
        ...

    @property
    def description(self) -> str:
        """Its purpose."""
        ...

    @property
    def parameters_schema(self) -> Mapping[str, Any]:
        """The JSON Schema of its arguments."""
        ...

    def planner(self, arguments: Mapping[str, Any]) -> TemplatePlan:
        """Returns the plan with these arguments. Raises InvalidArgument if they are wrong."""
        ...


@dataclass(frozen=True, slots=True)
class Fit:
    """A template that a query asks for, the arguments that the query has, and the required ones that it lacks."""

    template: PlanTemplate
    arguments: Mapping[str, Any]
    missing: Sequence[str] = ()


def fitting_template(query: str, templates: Sequence[PlanTemplate]) -> Fit | None:
    """As `asked_template`; None too if a required argument is missing."""
    fit = asked_template(query, templates)
    return None if fit is None or fit.missing else fit


def asked_template(query: str, templates: Sequence[PlanTemplate]) -> Fit | None:
    """Returns the template that a query asks for, by fixed rules; None if none clearly fits.

    A query that names a template, as "trip" or "trip city=Rome", asks for it. Otherwise one fits if it shares at least
    MIN_SHARED words and MIN_PART of its words with the name and the description of the template, more than with any
    other. Arguments are given as name=value.
    """
    given = {name: _value(text) for name, text in _PAIR.findall(query)}
    rest = _PAIR.sub(" ", query)
    topic = topic_stems(rest)
    scores = sorted(
        ((_score(topic, rest, template), index) for index, template in enumerate(templates)),
        key=lambda entry: (-entry[0], entry[1]),
    )
    if not scores or scores[0][0] == 0.0 or (len(scores) > 1 and scores[1][0] == scores[0][0]):
        return None
    template = templates[scores[0][1]]
    properties: Mapping[str, Any] = template.parameters_schema.get("properties", {})
    arguments = {
        name: str(value) if properties[name].get("type") == "string" and not isinstance(value, str) else value
        for name, value in given.items()
        if name in properties
    }
    missing = [name for name in template.parameters_schema.get("required", ()) if name not in arguments]
    return Fit(template, arguments, missing)


_PAIR: Final = re.compile(r"(?<![\w-])([A-Za-z_]\w{0,59})=(\"[^\"]{0,500}\"|\[[^\]\n]{0,500}\]|[^\s,;]{1,500})")


def _score(topic: set[str], query: str, template: PlanTemplate) -> float:
    if query.strip(" .,:;").lower() == template.name.lower():
        return 2.0
    shared = topic & topic_stems(f"{template.name} {template.description}"[:2_000])
    part = len(shared) / len(topic) if topic else 0.0
    return part if len(shared) >= MIN_SHARED and part >= MIN_PART else 0.0


def _value(text: str) -> Any:
    if text.startswith('"'):
        return text[1:-1]
    if text.startswith("["):
        return json_or(text, text)
    if re.fullmatch(r"-?[0-9]{1,15}", text):
        return int(text)
    return {"true": True, "false": False}.get(text, text)
