"""Loads a workflow from its YAML file, and checks it before anything is executed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

import pydantic

from archon.errors import ArchonError, InvalidArgument
from archon.output import OutputType
from archon_mesh.core.people.terms import terms_mistakes
from archon_mesh.declared.document import Document, Key
from archon_mesh.declared.mistakes import mistakes
from archon_mesh.workflows.approval import terms_of
from archon_mesh.workflows.parameters import value_fault
from archon_mesh.workflows.sandbox import Template, template
from archon_mesh.workflows.schema import KEYS, MAX_NESTING, TERMS, StepPart, WorkflowFile, default_id
from archon_mesh.workflows.workflow import Workflow

MAX_STEPS: Final = 500
"""Steps of a file."""

MAX_CALLS: Final = 8
"""Workflows that call each other."""

Find = Callable[[str], Path]
"""Returns the file of a workflow that a step names. Raises NotFound."""

Mistake = tuple[Key, str]


def load_workflow(path: Path | str, find: Find | None = None) -> Workflow:
    """Loads a file and those that it calls, which `find` looks up. Raises NotFound, and InvalidArgument with file, line
    and key of each mistake."""
    return _load(Path(path), find, ())


def _load(path: Path, find: Find | None, callers: tuple[Path, ...]) -> Workflow:
    document = Document(path, None)
    try:
        file = WorkflowFile.model_validate(document.value)
    except pydantic.ValidationError as error:
        raise document.errors(mistakes(document, error, KEYS)) from None
    if found := [*_parameter_mistakes(file), *_Check(file).mistakes()]:
        raise document.errors(sorted(found, key=lambda mistake: document.line(mistake[0])))
    calls: dict[str, Workflow] = {}
    for key, step in all_steps(("steps",), file.steps):
        if step.workflow is not None:
            call = (*key, "workflow")
            if step.workflow not in calls:
                calls[step.workflow] = _called(document, call, step.workflow, find, (*callers, path.resolve()))
            _check_call(document, key, step, calls[step.workflow])
    return Workflow.of(file, document.value, calls, path)


def _called(document: Document, key: Key, name: str, find: Find | None, callers: tuple[Path, ...]) -> Workflow:
    if find is None:
        raise document.error(key, f"cannot find the workflow {name}: this file is in no folder of workflows")
    try:
        path = find(name)
    except ArchonError as error:
        raise document.error(key, error.message) from None
    if path.resolve() in callers:
        raise document.error(key, f"{name} calls itself, directly or through others")
    if len(callers) > MAX_CALLS:
        raise document.error(key, f"more than {MAX_CALLS} workflows call each other")
    return _load(path, find, callers)


def _check_call(document: Document, key: Key, step: StepPart, called: Workflow) -> None:
    given = step.args or {}
    found = [
        ((*key, "args", name), f"{called.reference} has no parameter {name}{_meant(name, called.parameters)}")
        for name in given
        if name not in called.parameters
    ]
    found += [
        ((*key, "args"), f"the parameter {name} of {called.reference} is missing")
        for name, parameter in called.parameters.items()
        if parameter.required and name not in given
    ]
    if found:
        raise document.errors(found)


def _parameter_mistakes(file: WorkflowFile) -> Iterator[Mistake]:
    for name, parameter in file.parameters.items():
        key = ("parameters", name)
        if name in ("error", "loop"):
            yield key, f"{name} has a meaning of its own in templates: choose another name"
        if not parameter.required and (fault := value_fault(parameter, parameter.default)):
            yield (*key, "default"), fault
        for index, value in enumerate(parameter.enum or ()):
            if fault := value_fault(parameter.model_copy(update={"enum": None}), value):
                yield (*key, "enum", index), fault


def all_steps(key: Key, steps: Sequence[StepPart]) -> Iterator[tuple[Key, StepPart]]:
    """Yields every step with its key, in the order of the file."""
    for index, step in enumerate(steps):
        yield (*key, index), step
        for name, inner in step.blocks():
            yield from all_steps((*key, index, name), inner)
        if step.on_error is not None and step.on_error.steps:
            yield from all_steps((*key, index, "on_error", "steps"), step.on_error.steps)


class _Check:
    """Checks the templates of a file: their syntax, and that each name they read is known before."""

    def __init__(self, file: WorkflowFile) -> None:
        self._file = file
        self._found: list[Mistake] = []

    def mistakes(self) -> list[Mistake]:
        every = list(all_steps(("steps",), self._file.steps))
        if len(every) > MAX_STEPS:
            return [(("steps",), f"the file has {len(every):,} steps, at most {MAX_STEPS}")]
        self._block(("steps",), self._file.steps, set(self._file.parameters), 0)
        return self._found

    def _block(self, key: Key, steps: list[StepPart], names: set[str], depth: int) -> set[str]:
        """Checks steps that follow each other. Returns the names that are known after them."""
        if depth > MAX_NESTING:
            self._found.append((key, f"steps are nested more than {MAX_NESTING} levels deep"))
            return names
        self._ids(key, steps)
        for index, step in enumerate(steps):
            names = names | self._step((*key, index), step, names, depth)
        return names

    def _ids(self, key: Key, steps: list[StepPart]) -> None:
        seen: set[str] = set()
        for index, step in enumerate(steps):
            id_ = step.id or step.save_as or default_id(index)
            if id_ in seen:
                name = "id" if step.id else "save_as"
                self._found.append(((*key, index, name), f"another step of this list has the id {id_}"))
            seen.add(id_)
        loops = {
            step.id or step.save_as or default_id(index)
            for index, step in enumerate(steps)
            if step.for_each is not None or step.committee or step.swarm or step.copies or step.hedge_after
        }
        for index, step in enumerate(steps):
            id_ = step.id or step.save_as or default_id(index)
            loop, _, number = id_.rpartition("-")
            if loop in loops and number.isdigit():
                name = "id" if step.id else "save_as"
                self._found.append(((*key, index, name), f"{id_} is the id of a part of the step {loop}"))

    def _step(self, key: Key, step: StepPart, names: set[str], depth: int) -> set[str]:
        """Checks a step. Returns the names that it makes known."""
        known: set[str] = set()
        for field in ("task", "committee", "swarm", "items", "expected_output", "approve", "approvers", "args"):
            self._value((*key, field), getattr(step, field), names)
        if step.output is not None:
            try:
                OutputType(step.output)
            except InvalidArgument as error:
                self._found.append(((*key, "output"), error.message))
        if step.kind == "if":
            self._value((*key, "if"), step.if_, names)
            if not isinstance(step.if_, bool) and not (isinstance(step.if_, str) and "{" in step.if_):
                self._found.append(((*key, "if"), "must be true, false, or a template in {{ }}"))
            for name, inner in step.blocks():
                known |= self._block((*key, name), inner, names, depth + 1)
        elif step.kind == "for_each":
            self._value((*key, "for_each"), step.for_each, names)
            self._check_list((*key, "for_each"), step.for_each)
            item = {step.as_ or "item", "loop"}
            self._block((*key, "steps"), step.steps or [], names | item, depth + 1)
        elif step.kind == "swarm":
            self._check_list((*key, "items"), step.items)
        elif step.kind == "parallel":
            self._ids((*key, "parallel"), step.parallel or [])
            for index, inner_step in enumerate(step.parallel or ()):
                known |= self._step((*key, "parallel", index), inner_step, names, depth + 1)
        elif step.kind == "approve":
            wrong = terms_mistakes(terms_of(step.model_dump(include=set(TERMS), exclude_none=True)))
            self._found.extend(((*key, field), mistake) for field, mistake in wrong)
        if step.on_error is not None and step.on_error.steps:
            self._block((*key, "on_error", "steps"), step.on_error.steps, names | {"error"}, depth + 1)
        if step.save_as is not None:
            if step.save_as in self._file.parameters:
                self._found.append(((*key, "save_as"), f"{step.save_as} is a parameter: choose another name"))
            known.add(step.save_as)
        return known

    def _check_list(self, key: Key, value: Any) -> None:
        if not isinstance(value, list) and not (isinstance(value, str) and "{{" in value):
            self._found.append((key, "must be a list, or a template in {{ }} that gives one"))

    def _value(self, key: Key, value: Any, names: set[str]) -> None:
        for inner_key, text in texts_of(value, key):
            try:
                checked = template(text)
            except InvalidArgument as error:
                self._found.append((inner_key, error.message))
                continue
            for name in sorted(checked.names - names):
                why = f"{name} is neither a parameter nor the save_as of an earlier step{_meant(name, names)}"
                self._found.append((inner_key, why))


def texts_of(value: Any, key: Key = ()) -> Iterator[tuple[Key, str]]:
    """Yields the texts within a value, with their keys."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from texts_of(item, (*key, name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from texts_of(item, (*key, index))


def templates_of(value: Any) -> Iterator[Template]:
    """Yields the templates within a value."""
    for _, text in texts_of(value):
        yield template(text)


def _meant(given: str, known: Any) -> str:
    close = get_close_matches(given, sorted(known), 1)
    return f"; did you mean {close[0]}?" if close else ""
