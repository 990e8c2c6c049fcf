"""A function as a tool: its signature is the schema, its docstring the description."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, get_type_hints, overload

import pydantic

from archon.errors import FieldViolation, InvalidArgument
from archon.threads import on_thread
from archon_mesh.tools.tool import Tool

F = TypeVar("F", bound=Callable[..., Any])

STATE = "agent_state"


class FunctionTool(Tool):
    """Made by `@tool`. A plain function runs on a thread, so that it blocks nobody; cancelled, it is left to end there.
    It can still be called as the function that it is."""

    def __init__(
        self, function: Callable[..., Any], name: str = "", description: str = "", timeout: float | None = None
    ) -> None:
        """Raises InvalidArgument for parameters that no schema can be made of."""
        self.function = function
        self.name = name or getattr(function, "__name__", "")
        self.description = description or inspect.cleandoc(function.__doc__ or "")
        self.timeout = timeout
        if not self.name or not self.name.isidentifier():
            raise InvalidArgument(f"a tool needs a name like a function's, {self.name!r} is none")
        self._model = _arguments_of(function, self.name)
        self.wants_state = STATE in inspect.signature(function).parameters
        self.parameters_schema = _schema(self._model)
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function itself."""
        return self.function(*args, **kwargs)

    def validate_args(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """See Tool. Values are turned into the types of the signature."""
        try:
            valid = self._model.model_validate(arguments)
        except pydantic.ValidationError as error:
            violations = [
                FieldViolation(".".join(map(str, one["loc"])) or "(all)", one["msg"]) for one in error.errors()
            ]
            said = "; ".join(f"{one.field}: {one.description}" for one in violations)
            raise InvalidArgument(
                f"{self.name} was called with wrong arguments: {said}", field_violations=violations
            ) from None
        return {name: getattr(valid, name) for name in valid.model_fields_set}

    async def execute(self, **kwargs: Any) -> Any:
        """Calls the function."""
        if inspect.iscoroutinefunction(self.function):
            return await self.function(**kwargs)
        answer, error = await on_thread(functools.partial(self.function, **kwargs), f"tool-{self.name}")
        if error is not None:
            raise error
        return await answer if inspect.isawaitable(answer) else answer


@overload
def tool(function: F, /) -> FunctionTool: ...
@overload
def tool(
    *, name: str = "", description: str = "", timeout: float | None = None
) -> Callable[[Callable[..., Any]], FunctionTool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str = "",
    description: str = "",
    timeout: float | None = None,
) -> FunctionTool | Callable[[Callable[..., Any]], FunctionTool]:
    """Makes a tool of a function, sync or async: `@tool`, or `@tool(name=..., timeout=0.5)`. A parameter called
    `agent_state` is the calling agent's state and no part of the schema."""
    if function is not None:
        return FunctionTool(function)
    return lambda given: FunctionTool(given, name, description, timeout)


def _arguments_of(function: Callable[..., Any], name: str) -> type[pydantic.BaseModel]:
    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {}
    for one in inspect.signature(function).parameters.values():
        if one.name == STATE:
            continue
        if one.kind not in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY):
            raise InvalidArgument(f"tool {name}: parameter {one.name} must be one that can be given by name")
        fields[one.name] = (hints.get(one.name, Any), ... if one.default is one.empty else one.default)
    try:
        return pydantic.create_model(name, __config__=pydantic.ConfigDict(extra="forbid"), **fields)
    except (pydantic.errors.PydanticUserError, NameError) as error:
        raise InvalidArgument(f"tool {name}: {error}") from None


def _schema(model: type[pydantic.BaseModel]) -> dict[str, Any]:
    schema = model.model_json_schema()
    schema.pop("title", None)
    for one in schema.get("properties", {}).values():
        one.pop("title", None)
    schema.setdefault("properties", {})
    return schema
