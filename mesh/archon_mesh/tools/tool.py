"""The base class of tools, and the declarations of a tool."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypedDict

from archon.errors import FieldViolation, InvalidArgument
from archon.failure_kinds import INVALID_PARAMETERS
from archon.tool_arguments import invalid_arguments

NO_PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}}

MAX_INPUT_BYTES: Final = 1024 * 1024
"""Bytes of the arguments of a call, as JSON, unless the tool declares another limit."""

MAX_RATE: Final = 10_000
"""The highest `rate` that a tool may declare: its window remembers this many calls."""

MAX_RETRIES: Final = 10
"""The highest `retries` that a tool may declare."""


class ToolFields(TypedDict, total=False):
    """The declarations of a tool, as keyword arguments of `@tool`."""

    version: str
    timeout: float | None
    retries: int | None
    idempotent: bool
    cache_seconds: float
    dangerous: bool
    critical: bool
    rate: int | None
    alternative: str
    accepts: Sequence[str]
    produces: Sequence[str]
    max_input_bytes: int
    max_output_bytes: int | None
    credentials: Sequence[str]
    shared: bool


class Tool(ABC):
    """Base class of tools. Set `name`, `description` and `parameters_schema` as class attributes or in `__init__`.

    `parameters_schema` is a JSON Schema (draft 2020-12) of type object. If `wants_state` is set, the engine passes the
    AgentState of the calling agent as `agent_state`; this argument is not part of the schema, and no model sees it.
    The other attributes are limits and properties, which the engine enforces.
    """

    name: str = ""
    description: str = ""
    parameters_schema: Mapping[str, Any] = NO_PARAMETERS
    wants_state: bool = False
    wants_engine: bool = False
    """The engine passes itself as `engine`, with the `session_id` and `agent_state` of the call, for calls of other
    tools."""

    result_schema: Mapping[str, Any] | None = None
    """JSON Schema of results, if it is known. Composite tools compare types with it."""

    version: str = "1"
    """In the metadata of results; a cached result is never used for another version."""

    timeout: float | None = None
    """Seconds of one attempt; None for the engine's default. If infinite (a sub-agent, a question to a person), the
    tool is called exactly once: no retry, no circuit breaker, no alternative."""

    retries: int | None = None
    """How often a call is made again after a failure that may pass. None: 2 if the tool is idempotent, otherwise 0. A
    number says that a repeated call does no harm."""

    idempotent: bool = False
    """A call with the same arguments may be made twice without harm."""

    cache_seconds: float = 0.0
    """How long a result answers further calls with the same arguments. Only for idempotent tools."""

    dangerous: bool = False
    """Not available unless a policy allows the tool by its name."""

    critical: bool = False
    """Served before the other tools if the engine has a quota."""

    rate: int | None = None
    """Calls per minute, retries included."""

    alternative: str = ""
    """The name of another tool that answers while this one is off, slow or at its rate, and after a failure if a second
    call does no harm. It gets the same arguments."""

    accepts: Sequence[str] = ()
    """Media types of files among the arguments (Image, Audio, data URL), such as `image/*`; empty for all."""

    produces: Sequence[str] = ()
    """Media types of results: text is `text/plain`, a JSON value `application/json`; empty for all."""

    max_input_bytes: int = MAX_INPUT_BYTES
    max_output_bytes: int | None = None
    """Bytes of a result; None for the engine's default."""

    credentials: Sequence[str] = ()
    """Names of credentials. `execute` gets each as an argument of this name, a `Secret`, which is not in the schema."""

    shared: bool = False
    """Other agents may lease the tool, and execute it here, within the permissions and limits of this agent."""

    shareable: bool = True
    """Whether a tool of this class can be shared: one that is another agent's, or asks a person, cannot."""

    _validator: Any = None

    @abstractmethod
    async def execute(self, **kwargs: Any) -> Any:
        """Executes the tool. Returns a ToolResult, or a value that becomes the content of one.

        An exception becomes an error result for the model.
        """

    def validate_args(self, args: Mapping[str, Any]) -> str | None:
        """Returns a message that names each invalid argument, or None if all are valid."""
        if self._validator is None or self._validator.schema is not self.parameters_schema:
            import referencing  # both are slow to import, and function tools do not need them
            from jsonschema import Draft202012Validator

            # The empty registry resolves no references to other documents: nothing is fetched.
            self._validator = Draft202012Validator(self.parameters_schema, registry=referencing.Registry())
        violations = [
            FieldViolation(".".join(map(str, error.absolute_path)) or "(all)", error.message)
            for error in self._validator.iter_errors(dict(args))
        ]
        return str(invalid_arguments(self.name, violations)) if violations else None

    def convert_args(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the arguments for `execute`, validated once. Raises InvalidArgument."""
        if (message := self.validate_args(args)) is not None:
            raise InvalidArgument(message, kind=INVALID_PARAMETERS)
        return dict(args)


def check_declared(tool: Tool) -> None:
    """Raises InvalidArgument if a tool declares something that is out of range or contradicts itself."""
    limits = {"max_input_bytes": tool.max_input_bytes, "max_output_bytes": tool.max_output_bytes}
    problems = [
        (tool.timeout is not None and not tool.timeout > 0, "timeout must be above 0 s"),
        (tool.retries is not None and not 0 <= tool.retries <= MAX_RETRIES, f"retries must be 0 to {MAX_RETRIES}"),
        (tool.rate is not None and not 1 <= tool.rate <= MAX_RATE, f"rate must be 1 to {MAX_RATE:,} calls per minute"),
        (not 0 <= tool.cache_seconds < math.inf, "cache_seconds must be a time in seconds"),
        (tool.cache_seconds > 0 and not tool.idempotent, "cache_seconds is for idempotent tools only"),
        (tool.cache_seconds > 0 and tool.wants_state, "a result that depends on agent_state cannot be cached"),
        (tool.cache_seconds > 0 and tool.wants_engine, "a result that depends on other tools cannot be cached"),
        (bool(tool.alternative) and tool.alternative == tool.name, "a tool cannot be its own alternative"),
        (tool.shared and bool(share_refusal(tool)), share_refusal(tool)),
        *((limit is not None and limit < 1, f"{name} must be at least 1") for name, limit in limits.items()),
        *(
            (isinstance(getattr(tool, name), str), f"{name} must be a list of texts")
            for name in ("accepts", "produces", "credentials")
        ),
    ]
    for is_wrong, message in problems:
        if is_wrong:
            raise InvalidArgument(f"tool {tool.name}: {message}")


def share_refusal(tool: Tool) -> str:
    """Returns why a tool cannot be shared with other agents; empty if it can."""
    if not tool.shareable:
        return "a tool of another agent cannot be shared further"
    if tool.wants_state:
        return "a tool that wants agent_state cannot be shared: its callers have no state here"
    if tool.wants_engine:
        return "a tool that calls other tools by the engine cannot be shared"
    if tool.timeout is not None and math.isinf(tool.timeout):
        return "a tool without a time limit, such as a sub-agent or a question to a person, cannot be shared"
    return ""
