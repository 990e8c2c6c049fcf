"""Records a workflow from a plan that was executed: its steps, with values of the goal as parameters.

Results are not recorded, and neither is any value that may be a secret: such a value is a parameter without a default.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import yaml

from archon.errors import FailedPrecondition
from archon_mesh.core.shorten import shortened
from archon_mesh.engine.plan import SubTask, SubTaskStatus, Task
from archon_mesh.engine.plan.templates import _TOKEN, is_key, root_of
from archon_mesh.llm.wrappers.cassette import redacted, secrets_of_environment
from archon_mesh.workflows.planner import CONTEXT_KEY
from archon_mesh.workflows.schema import MAX_NESTING

MAX_DESCRIPTION: Final = 500
"""Characters of the goal in the description of a recorded workflow."""

HIDDEN: Final = "***"
"""In the place of a secret within an argument."""

_SECRET: Final = re.compile(r"pass(word|wd|phrase)?|secret|token|credential|api[_-]?key|authorization|private", re.I)
_JINJA: Final = re.compile(r"\{\{|\{%|\{#")
_WORD: Final = re.compile(r"\W+")


@dataclass(slots=True)
class Recording:
    """A recorded workflow. `content` is the content of its file; `parameters` says of each parameter where its value
    stood, for people."""

    content: dict[str, Any]
    parameters: dict[str, str] = field(default_factory=dict)

    def to_yaml(self, comment: str = "") -> str:
        """Returns the text of the file."""
        head = f"# {comment}\n" if comment else ""
        return head + yaml.safe_dump(self.content, sort_keys=False, allow_unicode=True, width=110)


def record(task: Task, name: str) -> Recording:
    """Returns the workflow of an executed plan. Steps that did not complete are left out.

    Raises FailedPrecondition if no step completed, or the plan was made by a workflow.
    """
    if made_by := task.context.get(CONTEXT_KEY):
        raise FailedPrecondition(f"the plan was made by the workflow {made_by}: there is nothing to record")
    completed = task.completed_ids
    steps = [_within(each, completed) for each in task.subtasks if each.id in completed and not each.expand]
    if not steps:
        raise FailedPrecondition("no step of the plan completed: there is nothing to record")
    writer = _Writer(task, steps)
    written = writer.steps()
    content: dict[str, Any] = {"name": name, "version": 1}
    content["description"] = writer.without_secrets(shortened(" ".join(task.original_query.split()), MAX_DESCRIPTION))
    if writer.parameters:
        content["parameters"] = writer.parameters
    return Recording(redacted({**content, "steps": written}, secrets_of_environment()), writer.found)


def _within(subtask: SubTask, ids: frozenset[str]) -> SubTask:
    kept = tuple(id_ for id_ in subtask.dependencies if id_ in ids)
    return replace(subtask, dependencies=kept, status=SubTaskStatus.PENDING, result=None)


class _Writer:
    def __init__(self, task: Task, steps: Sequence[SubTask]) -> None:
        self._task = task
        self._steps = {step.id: step for step in steps}
        self._names = _names_of(self._steps)
        self.parameters: dict[str, dict[str, Any]] = {}
        self.found: dict[str, str] = {}
        self._values: dict[str, str] = {}
        """The names of the parameters, by the texts in their place."""

        self._used: set[str] = set()
        for step in steps:
            self._find_parameters(step)
            self._used.update(root for key in _keys(step.tool_args) if (root := root_of(key, self._names)))

    def steps(self) -> list[dict[str, Any]]:
        """The steps in an order in which each comes behind those that it depends on, several at once if they can."""
        written: list[dict[str, Any]] = []
        before: frozenset[str] = frozenset()
        for level in _levels(self._steps):
            each = [self._step(step, before) for step in level]
            written += each if len(each) == 1 else [{"parallel": each}]
            before = frozenset(step.id for step in level)
        return written

    def without_secrets(self, text: str) -> str:
        """A text that is no template, without the values of secret parameters."""
        for value, name in self._values.items():
            if "default" not in self.parameters[name]:
                text = text.replace(value, f"({name})")
        return text

    def text(self, text: str) -> str:
        """A text for a template: with parameters in the place of their values."""
        literal = _literal(text)
        for value, name in sorted(self._values.items(), key=lambda item: -len(item[0])):
            literal = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", f"{{{{ {name} }}}}", literal)
        return literal

    def _step(self, step: SubTask, before: frozenset[str]) -> dict[str, Any]:
        written: dict[str, Any] = {}
        if step.tool_name:
            written["tool"] = step.tool_name
            if step.tool_args:
                written["args"] = {key: self._argument(key, value) for key, value in step.tool_args.items()}
            if step.description and step.description != f"Call the tool {step.tool_name}.":
                written["task"] = self.text(step.description)
        else:
            kind = "capability" if step.capability else "role"
            if name := step.capability or step.role:
                written[kind] = name
            # A step gets the results of the steps right before it by itself.
            further = [id_ for id_ in step.dependencies if id_ not in before]
            results = "".join(f"\n\nResult of {id_}:\n{{{{ {self._names[id_]} }}}}" for id_ in further)
            self._used.update(further)
            written["task"] = self.text(step.description) + results
        if step.expected_output:
            written["expected_output"] = self.text(step.expected_output)
        if step.output_schema:
            written["output"] = dict(step.output_schema)
        written["save_as"] = self._names[step.id]
        return written

    def _find_parameters(self, step: SubTask) -> None:
        """Makes a parameter of each argument whose value stands in the goal, or may be a secret."""
        for key, value in step.tool_args.items():
            if isinstance(value, bool) or not isinstance(value, (str, int, float)):
                continue
            text = str(value)
            is_secret = _SECRET.search(key) is not None or redacted(text, secrets_of_environment()) != text
            if not text.strip() or (isinstance(value, str) and any(_keys({key: value}))):
                continue
            in_goal = re.search(rf"(?<!\w){re.escape(text)}(?!\w)", self._task.original_query) is not None
            obvious = in_goal and (len(text) > 2 or not isinstance(value, str))
            if (is_secret or obvious) and text not in self._values:
                self._add_parameter(step, key, value, is_secret=is_secret)

    def _add_parameter(self, step: SubTask, key: str, value: Any, *, is_secret: bool) -> None:
        name = _free(_WORD.sub("_", key).strip("_") or "value", {*self.parameters, *self._names.values()})
        kind = {str: "string", int: "integer", float: "number"}[type(value)]
        self.parameters[name] = {"type": kind, "description": f"{key} of {step.tool_name or step.id}"}
        if not is_secret:
            self.parameters[name]["default"] = value
        self._values[str(value)] = name
        where = "may be a secret, and has no default" if is_secret else f"was {value!r} in the goal"
        self.found[name] = f"the argument {key} of step {step.id}, which {where}"

    def _argument(self, key: str, value: Any, depth: int = 0) -> Any:
        if isinstance(value, Mapping) and depth < MAX_NESTING:
            return {each: self._argument(each, item, depth + 1) for each, item in value.items()}
        if isinstance(value, list) and depth < MAX_NESTING:
            return [self._argument(key, item, depth + 1) for item in value]
        if not isinstance(value, str):
            name = None if isinstance(value, bool) else self._values.get(str(value))
            return f"{{{{ {name} }}}}" if name else value
        if value in self._values:
            return f"{{{{ {self._values[value]} }}}}"
        if _SECRET.search(key) and not any(_keys({key: value})):
            return HIDDEN
        return "".join(self._pieces(value))

    def _pieces(self, value: str) -> Iterator[str]:
        """The pieces of an argument, with the templates of the plan as templates of a workflow."""
        position, opened = 0, 0
        for match in _TOKEN.finditer(value):
            yield self.text(value[position : match.start()])
            position = match.end()
            if match[0] == "{{":
                opened += 1
                yield "{"
            elif match[0] == "}}":
                opened, is_pair = max(0, opened - 1), opened > 0
                yield "}" if is_pair else "}}"
            elif is_key(match[1], self._names) and (root := root_of(match[1], self._names)):
                yield f"{{{{ {self._names[root]}{_path(match[1][len(root) + 1 :])} }}}}"
            else:
                yield _literal(match[0])
        yield self.text(value[position:])


def _keys(args: Mapping[str, Any]) -> Iterator[str]:
    """Yields the keys of the templates in the texts of arguments."""
    for value in args.values():
        if isinstance(value, str):
            yield from (match[1] for match in _TOKEN.finditer(value) if match[1])
        elif isinstance(value, (Mapping, list)):
            yield from _keys(value if isinstance(value, Mapping) else dict(enumerate(map(str, value))))  # type: ignore[arg-type]


def _levels(steps: Mapping[str, SubTask]) -> list[list[SubTask]]:
    """Returns the steps in levels: each step depends on steps of earlier levels, and on one of the level before."""
    level: dict[str, int] = {}
    remaining = dict(steps)
    while remaining:
        ready = [step for step in remaining.values() if all(id_ in level for id_ in step.dependencies)]
        for step in ready:
            level[step.id] = max((level[id_] + 1 for id_ in step.dependencies), default=0)
            del remaining[step.id]
    return [[step for step in steps.values() if level[step.id] == number] for number in range(max(level.values()) + 1)]


def _names_of(steps: Mapping[str, SubTask]) -> dict[str, str]:
    """Returns a name for the result of each step."""
    names: dict[str, str] = {}
    for id_ in steps:
        name = _WORD.sub("_", id_).strip("_")[:50] or "step"
        name = name if name[0].isalpha() and name.isascii() else f"step_{len(names) + 1}"
        names[id_] = _free(name, {*names.values(), "error", "loop", "item"})
    return names


def _free(name: str, taken: set[str]) -> str:
    name = name if name.isascii() and name[:1].isalpha() else f"value_{name}" if name.isascii() else "value"
    number = 2
    free = name
    while free in taken:
        free, number = f"{name}_{number}", number + 1
    return free


def _path(path: str) -> str:
    parts = path.split(".") if path else []
    return "".join(f"[{part}]" if part.isdigit() else f"['{part}']" for part in parts)


def _literal(text: str) -> str:
    """Returns a text in which nothing is a template."""
    return _JINJA.sub(lambda match: f"{{{{ '{match[0]}' }}}}", text)
