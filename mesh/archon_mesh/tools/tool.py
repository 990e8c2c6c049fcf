"""What every tool is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from archon.errors import FieldViolation, InvalidArgument
from archon_mesh.llm.base import ToolSpec
from archon_mesh.tools.result import ToolResult

NO_PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}}


class Tool(ABC):
    """A class attribute each, or set by `__init__`: `name`, `description`, and `parameters_schema`, a JSON Schema
    (draft 2020-12) of type object. `timeout` is in seconds, None: the engine's.

    A parameter called `agent_state` isn't in the schema, and no model sees it: the engine gives it the AgentState of
    the agent that calls, where `wants_state` is true.
    """

    name: str = ""
    description: str = ""
    parameters_schema: Mapping[str, Any] = NO_PARAMETERS
    timeout: float | None = None
    wants_state: bool = False
    _validator: Any = None

    @abstractmethod
    async def execute(self, **kwargs: Any) -> Any:
        """Does it. Returns a ToolResult, or a value that becomes the content of one. What it raises becomes an error
        that the model is told."""

    def validate_args(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments as `execute` takes them. Raises InvalidArgument, with a violation for each that is wrong."""
        if self._validator is None or self._validator.schema is not self.parameters_schema:
            from jsonschema import Draft202012Validator  # not needed by whoever has functions only, and not small

            self._validator = Draft202012Validator(self.parameters_schema)
        found = self._validator.iter_errors(dict(arguments))
        violations = [FieldViolation(".".join(map(str, one.absolute_path)) or "(all)", one.message) for one in found]
        if violations:
            said = "; ".join(f"{one.field}: {one.description}" for one in violations)
            raise InvalidArgument(f"{self.name} was called with wrong arguments: {said}", field_violations=violations)
        return dict(arguments)

    @property
    def spec(self) -> ToolSpec:
        """As a model sees it."""
        return ToolSpec(self.name, self.description, self.parameters_schema)


def as_result(value: object) -> ToolResult:
    """A tool's answer, whatever form it has."""
    return value if isinstance(value, ToolResult) else ToolResult(value)
