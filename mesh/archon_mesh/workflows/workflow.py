"""A workflow: a template of a plan, with parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pydantic

from archon.errors import InvalidArgument
from archon_mesh.workflows.schema import ParameterPart, StepPart, WorkflowFile

SEPARATOR: Final = "@"
"""Between a name and a version."""


@dataclass(frozen=True, slots=True)
class Workflow:
    """A workflow that was checked. `calls` has the workflows that its steps name, by the text with which they do, and
    `content` the file's content. `source` is the file; None for one that was read from a run."""

    name: str
    version: int
    description: str
    parameters: Mapping[str, ParameterPart]
    steps: Sequence[StepPart]
    content: Mapping[str, Any] = field(repr=False, compare=False)
    calls: Mapping[str, Workflow] = field(default_factory=dict, repr=False, compare=False)
    source: Path | None = field(default=None, compare=False)

    @property
    def reference(self) -> str:
        """Name and version, as in `trip@2`."""
        return f"{self.name}{SEPARATOR}{self.version}"

    @classmethod
    def of(
        cls,
        file: WorkflowFile,
        content: Mapping[str, Any],
        calls: Mapping[str, Workflow] | None = None,
        source: Path | None = None,
    ) -> Workflow:
        """Makes the workflow of a checked file. `calls` are the workflows that its steps call, by name."""
        return cls(
            file.name, file.version, file.description, file.parameters, file.steps, content, dict(calls or {}), source
        )

    def to_json_value(self) -> dict[str, Any]:
        """Returns the workflow with those that it calls, as a run carries them: an edited file changes no run."""
        return {
            "content": dict(self.content),
            "calls": {name: called.to_json_value() for name, called in self.calls.items()},
        }

    @classmethod
    def from_json_value(cls, value: Any) -> Workflow:
        """Returns the workflow of a value from `to_json_value`. Raises InvalidArgument if it is something else."""
        try:
            content = value["content"]
            calls = {name: cls.from_json_value(called) for name, called in value["calls"].items()}
            return cls.of(WorkflowFile.model_validate(content), content, calls)
        except (KeyError, TypeError, AttributeError, RecursionError) as error:
            raise InvalidArgument(f"this is no workflow: {type(error).__name__}: {error}") from None
        except pydantic.ValidationError as error:
            first = error.errors()[0]
            raise InvalidArgument(f"invalid workflow: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
