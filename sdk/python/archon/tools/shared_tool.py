"""A tool that an agent lends to other agents, and a call of it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from archon.clock import monotonic
from archon.errors import FieldViolation, InvalidArgument
from archon.json_text import json_object
from archon.registry import Tool
from archon.tool_arguments import invalid_arguments
from archon.types.task_ref import TaskRef

CALLS_PER_MINUTE: Final = 60
TOTAL_PER_MINUTE: Final = 600
MAX_RATE: Final = 10_000
"""Calls per minute of one lease and of all leases of a tool by default, and at most."""

MAX_CONCURRENT: Final = 16
"""Calls of a tool in progress at a time, by default."""

MAX_SECONDS: Final = 3600.0
"""Seconds of a call at most, whatever its caller asks for."""

MAX_ARGUMENTS_BYTES: Final = 1024 * 1024
"""Bytes of the arguments of a call as JSON."""

MAX_NAME: Final = 128
"""Characters of the name of a tool."""

MAX_VIOLATIONS: Final = 5
_MAX_WHY: Final = 200


class SharedToolCall:
    """A call of a shared tool, as its owner sees it. `task` is the attempt that the tool was leased for, and
    `instance_id` the instance that leased it: both in the words of the caller, None and empty if it named none."""

    def __init__(
        self,
        tool_name: str,
        task: TaskRef | None,
        instance_id: str,
        report: Callable[[str], None],
        seconds: float,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.tool_name = tool_name
        self.task = task
        self.instance_id = instance_id
        self._report = report
        self._clock = clock
        self._ends = clock() + seconds

    def report(self, text: str) -> None:
        """Sends progress to the caller, a text for people. Never waits; if the caller does not read, older texts are
        dropped."""
        self._report(text)

    @property
    def remaining(self) -> float:
        """Seconds that the call has left, never below 0."""
        return max(0.0, self._ends - self._clock())


Execute = Callable[[Mapping[str, Any], SharedToolCall], Awaitable[Any]]
"""Executes a call with valid arguments. Returns a JSON value, or a SharedToolResult."""


@dataclass(frozen=True, slots=True)
class SharedTool:
    """A tool that other agents may lease and execute here.

    `execute(arguments, call)` is a coroutine function; `call` is a SharedToolCall. An exception becomes an error
    result: the text of an ArchonError, an incident number for any other exception. Callers may make
    `max_calls_per_minute` calls with one lease and `total_per_minute` with all leases together (0: any number),
    `max_concurrent` of them at a time; a call takes at most `timeout` seconds.

    Raises InvalidArgument if the tool has no name, its schema is no JSON Schema of an object, or a limit is out of
    range.
    """

    tool: Tool
    execute: Execute
    max_calls_per_minute: int = CALLS_PER_MINUTE
    total_per_minute: int = TOTAL_PER_MINUTE
    max_concurrent: int = MAX_CONCURRENT
    timeout: float = MAX_SECONDS

    def __post_init__(self) -> None:
        name = self.tool.name
        if not 0 < len(name) <= MAX_NAME:
            raise InvalidArgument(f"the name of a shared tool must have 1 to {MAX_NAME} characters")
        for limit in ("max_calls_per_minute", "total_per_minute"):
            if not 0 <= getattr(self, limit) <= MAX_RATE:
                raise InvalidArgument(f"shared tool {name}: {limit} must be 0 to {MAX_RATE:,}; 0 is any number")
        if self.max_concurrent < 1:
            raise InvalidArgument(f"shared tool {name}: max_concurrent must be at least 1")
        if not 0 < self.timeout <= MAX_SECONDS:
            raise InvalidArgument(f"shared tool {name}: timeout must be above 0 s and at most {MAX_SECONDS:g} s")
        schema_of(self.tool)

    @property
    def name(self) -> str:
        """The name of the tool."""
        return self.tool.name


def schema_of(tool: Tool) -> dict[str, Any]:
    """Returns the JSON Schema of a tool's arguments, which may be empty. Raises InvalidArgument if
    it is invalid."""
    if not tool.input_schema_json:
        return {}
    from jsonschema import Draft202012Validator, SchemaError  # slow to import

    schema = json_object(tool.input_schema_json)
    if schema is None:
        raise InvalidArgument(f"the schema of tool {tool.name} is not a JSON object")
    try:
        Draft202012Validator.check_schema(schema)
    except (SchemaError, RecursionError) as error:
        why = error.message if isinstance(error, SchemaError) else "it is nested too deep"
        raise InvalidArgument(f"the schema of tool {tool.name} is no JSON Schema: {why}") from None
    return schema


class ArgumentCheck:
    """Reads the arguments of calls, and validates them against the schema of a tool."""

    def __init__(self, tool: Tool) -> None:
        self._name = tool.name
        self._schema = schema_of(tool)
        self._validator: Any = None

    def read(self, text: str) -> dict[str, Any]:
        """Returns the arguments of a call. Raises InvalidArgument with each invalid field, also if the text is too
        large or no JSON object."""
        if len(text) > MAX_ARGUMENTS_BYTES or len(text.encode()) > MAX_ARGUMENTS_BYTES:
            raise self._not_read(f"must have at most {MAX_ARGUMENTS_BYTES:,} bytes")
        try:
            arguments = json.loads(text or "{}", parse_constant=_no_constant)
        except (ValueError, RecursionError):
            arguments = None
        if not isinstance(arguments, dict):
            raise self._not_read("must be a JSON object")
        if not self._schema:
            return arguments
        if self._validator is None:
            import referencing  # slow to import
            from jsonschema import Draft202012Validator

            # The empty registry resolves no references to other documents: nothing is fetched.
            self._validator = Draft202012Validator(self._schema, registry=referencing.Registry())
        try:
            violations = [
                FieldViolation(".".join(map(str, error.absolute_path)) or "(all)", error.message[:_MAX_WHY])
                for _, error in zip(range(MAX_VIOLATIONS), self._validator.iter_errors(arguments), strict=False)
            ]
        except RecursionError:
            violations = [FieldViolation("(all)", "nested too deep")]
        if violations:
            raise invalid_arguments(self._name, violations)
        return arguments

    def _not_read(self, why: str) -> InvalidArgument:
        return invalid_arguments(self._name, [FieldViolation("arguments_json", why)])


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
