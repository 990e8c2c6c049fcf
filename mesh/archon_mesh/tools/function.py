"""Functions as tools: the signature becomes the schema, the docstring the description."""

from __future__ import annotations

import copy
import functools
import inspect
import threading
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, TypeVar, get_args, get_type_hints, overload

import pydantic
from typing_extensions import Unpack, override

from archon.errors import InvalidArgument, ResourceExhausted
from archon.failure_kinds import TOOL_RESOURCES
from archon.threads import on_thread
from archon_mesh.core.media import Media
from archon_mesh.tools.plain import collected, to_plain
from archon_mesh.tools.result import ToolResult
from archon_mesh.tools.signature import Signature
from archon_mesh.tools.tool import Tool, ToolFields, check_declared

F = TypeVar("F", bound=Callable[..., Any])

STATE = "agent_state"

MAX_THREADS: Final = 200
"""Threads of one plain function, including threads left by calls that timed out."""


class FunctionTool(Tool):
    """A function as a tool, created by `@tool`. It can still be called as a function.

    A plain function runs on a thread, so that it does not block the event loop. If the call is cancelled, the thread
    continues until the function returns; there are at most MAX_THREADS.
    """

    def __init__(
        self, function: Callable[..., Any], name: str = "", description: str = "", **declared: Unpack[ToolFields]
    ) -> None:
        """`declared` sets the attributes of `Tool`. Raises InvalidArgument if the name is not an identifier, a
        parameter cannot be described by a schema, or a credential is not a parameter."""
        self.function = function
        self.name = name or getattr(function, "__name__", "")
        self.description = description or inspect.cleandoc(function.__doc__ or "")
        if not self.name or not self.name.isidentifier():
            raise InvalidArgument(f"invalid tool name {self.name!r}: not an identifier")
        if unknown := sorted(declared.keys() - ToolFields.__annotations__.keys()):
            raise TypeError(f"unknown field {', '.join(unknown)}; a tool has {', '.join(ToolFields.__annotations__)}")
        for field, value in declared.items():
            setattr(self, field, value)
        parameters = inspect.signature(function).parameters
        self.wants_state = STATE in parameters
        check_declared(self)
        if missing := [credential for credential in self.credentials if credential not in parameters]:
            raise InvalidArgument(f"tool {self.name}: the credential {missing[0]!r} is not a parameter of the function")
        self._threads = 0
        self._threads_lock = threading.Lock()
        self._is_method = False
        self._describe(())
        self.result_schema = _result_schema(function)
        functools.update_wrapper(self, function)

    def __set_name__(self, owner: type, name: str) -> None:
        """If the function was written in the class, it is a method: its first parameter is the instance, which no
        caller passes. A tool of another place that a class has as an attribute stays as it is."""
        written = f"{owner.__qualname__}.{getattr(self.function, '__name__', '')}"
        first = next(iter(inspect.signature(self.function).parameters), None)
        if (
            first is None
            or isinstance(self.function, staticmethod)
            or getattr(self.function, "__qualname__", "") != written
        ):
            return
        self._is_method = True
        self._describe((first,))

    def __get__(self, instance: object, owner: type | None = None) -> FunctionTool:
        """Returns the tool of an instance whose class has a method as a tool."""
        if instance is None or not self._is_method:
            return self
        bound = copy.copy(self)
        bound.function = self.function.__get__(instance, owner)
        return bound

    def _describe(self, instance: Collection[str]) -> None:
        self._signature = Signature(self.function, self.name, {STATE, *self.credentials, *instance})
        self.parameters_schema = self._signature.schema

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function directly."""
        return self.function(*args, **kwargs)

    @override
    def validate_args(self, args: Mapping[str, Any]) -> str | None:
        try:
            self.convert_args(args)
        except InvalidArgument as error:
            return str(error)
        return None

    @override
    def convert_args(self, args: Mapping[str, Any]) -> dict[str, Any]:
        return self._signature.convert(args)

    @override
    async def execute(self, /, **kwargs: Any) -> Any:
        if inspect.isasyncgenfunction(self.function):
            return to_plain(await collected(self.function(**kwargs)))
        if inspect.iscoroutinefunction(self.function):
            return to_plain(await self.function(**kwargs))
        value, error = await on_thread(functools.partial(self._on_thread, kwargs), f"tool-{self.name}")
        if error is not None:
            raise error
        return to_plain(await value) if inspect.isawaitable(value) else value

    def _on_thread(self, kwargs: dict[str, Any]) -> Any:
        with self._threads_lock:
            if self._threads >= MAX_THREADS:
                message = f"tool {self.name} has {MAX_THREADS} threads that have not ended"
                raise ResourceExhausted(message, kind=TOOL_RESOURCES)
            self._threads += 1
        try:
            value = self.function(**kwargs)
            return value if inspect.isawaitable(value) else to_plain(value)
        finally:
            with self._threads_lock:
                self._threads -= 1


@overload
def tool(function: F, /) -> FunctionTool: ...
@overload
def tool(
    *, name: str = "", description: str = "", **declared: Unpack[ToolFields]
) -> Callable[[Callable[..., Any]], FunctionTool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str = "",
    description: str = "",
    **declared: Unpack[ToolFields],
) -> FunctionTool | Callable[[Callable[..., Any]], FunctionTool]:
    """Makes a function, sync or async, a tool: `@tool`, or `@tool(name=..., timeout=0.5)`, in seconds.

    `declared` sets the attributes of `Tool`. A parameter called `agent_state` receives the calling agent's state, and
    one named by `credentials` a Secret; neither is part of the schema.
    """
    if function is not None:
        return FunctionTool(function, name, description, **declared)
    return lambda function: FunctionTool(function, name, description, **declared)


def _result_schema(function: Callable[..., Any]) -> Mapping[str, Any] | None:
    """Returns the JSON Schema of a function's declared result; None if it declares none, or if that is not JSON."""
    try:
        annotation = get_type_hints(function).get("return")
        if annotation is None or any(issubclass(each, (ToolResult, Media)) for each in _classes(annotation)):
            return None
        return pydantic.TypeAdapter(annotation).json_schema(mode="serialization")
    except Exception:  # noqa: BLE001 - an annotation may be anything
        return None


def _classes(annotation: Any) -> list[type]:
    return [each for each in (annotation, *get_args(annotation)) if isinstance(each, type)]
