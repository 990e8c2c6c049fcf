"""The base class of tools."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from archon.errors import FieldViolation, InvalidArgument
from archon_mesh.llm.base import ToolSpec
from archon_mesh.tools.result import ToolResult

NO_PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}}


class Tool(ABC):
    """Base class of tools. Set `name`, `description` and `parameters_schema` as class attributes or in `__init__`.

    `parameters_schema` is a JSON Schema (draft 2020-12) of type object. `timeout` is in seconds, None for the engine's
    default. If `wants_state` is set, the engine passes the AgentState of the calling agent as `agent_state`; this
    argument is not part of the schema, and no model sees it.
    """

    name: str = ""
    description: str = ""
    parameters_schema: Mapping[str, Any] = NO_PARAMETERS
    timeout: float | None = None
    wants_state: bool = False
    _validator: Any = None

    @abstractmethod
    async def execute(self, **kwargs: Any) -> Any:
        """Executes the tool. Returns a ToolResult, or a value that becomes the content of one.

        An exception becomes an error result for the model.
        """

    def validate_args(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the arguments for `execute`. Raises InvalidArgument with one violation per invalid argument."""
        if self._validator is None or self._validator.schema is not self.parameters_schema:
            from jsonschema import Draft202012Validator  # slow to import, and function tools do not need it

            self._validator = Draft202012Validator(self.parameters_schema)
        violations = [
            FieldViolation(".".join(map(str, error.absolute_path)) or "(all)", error.message)
            for error in self._validator.iter_errors(dict(arguments))
        ]
        if violations:
            raise invalid_arguments(self.name, violations)
        return dict(arguments)

    @property
    def spec(self) -> ToolSpec:
        """The tool as a model sees it."""
        return ToolSpec(self.name, self.description, self.parameters_schema)


def as_result(value: object) -> ToolResult:
    """Returns a ToolResult unchanged, and any other value as the content of one."""
    return value if isinstance(value, ToolResult) else ToolResult(value)


def invalid_arguments(tool_name: str, violations: Sequence[FieldViolation]) -> InvalidArgument:
    """Returns the error for a call with invalid arguments."""
    details = "; ".join(f"{violation.field}: {violation.description}" for violation in violations)
    return InvalidArgument(f"invalid arguments for tool {tool_name}: {details}", field_violations=violations)
