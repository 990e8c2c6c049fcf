"""The parameters of a function as a model for their validation, and as a JSON Schema."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Collection, Mapping
from types import SimpleNamespace
from typing import Annotated, Any, Final, get_args, get_type_hints

import pydantic
from pydantic.fields import FieldInfo

from archon.errors import FieldViolation, InvalidArgument
from archon.tool_arguments import invalid_arguments

_PACKAGE: Final = "archon_mesh.tools."


class Signature:
    """The parameters of one function that callers pass, by their names."""

    def __init__(self, function: Callable[..., Any], tool_name: str, hidden: Collection[str]) -> None:
        """`hidden` are parameters that callers do not pass. Raises InvalidArgument if a parameter cannot be described
        by a schema."""
        self._tool_name = tool_name
        self._names: dict[str, str] = {}
        """The names of parameters by the names of the model's fields: a model takes no name that begins with `_`, nor
        one of its own attributes."""
        self._filled: set[str] = set()
        """Parameters whose default is written as a pydantic Field: the function itself does not know the value."""
        self._model = self._made(function, hidden)
        self.schema = _schema(self._model)

    def convert(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Validates and converts the values to the types of the signature. Raises InvalidArgument."""
        try:
            valid = self._model.model_validate(args)
        except pydantic.ValidationError as error:
            violations = [
                FieldViolation(".".join(map(str, each["loc"])) or "(all)", each["msg"]) for each in error.errors()
            ]
            raise invalid_arguments(self._tool_name, violations) from None
        given = valid.model_fields_set | self._filled
        return {self._names[field]: getattr(valid, field) for field in self._names if field in given}

    def _made(self, function: Callable[..., Any], hidden: Collection[str]) -> type[pydantic.BaseModel]:
        parameters = [each for each in inspect.signature(function).parameters.values() if each.name not in hidden]
        hints = _hints(function, self._tool_name, [each.name for each in parameters])
        fields: dict[str, Any] = {}
        for number, parameter in enumerate(parameters):
            if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                raise InvalidArgument(f"tool {self._tool_name}: parameter {parameter.name} cannot be passed by name")
            name, hint = f"p{number}", hints.get(parameter.name, Any)
            annotation: Any = Annotated[hint, pydantic.Field(alias=parameter.name)]
            declared = [each for each in get_args(hint)[1:] if isinstance(each, FieldInfo) and not each.is_required()]
            if isinstance(parameter.default, FieldInfo) or (parameter.default is parameter.empty and declared):
                self._filled.add(name)
            if parameter.default is parameter.empty:
                fields[name] = annotation if declared else (annotation, ...)
            else:
                fields[name] = (annotation, parameter.default)
            self._names[name] = parameter.name
        try:
            return pydantic.create_model(
                self._tool_name, __config__=pydantic.ConfigDict(extra="forbid", validate_by_name=False), **fields
            )
        except (pydantic.errors.PydanticUserError, NameError) as error:
            raise InvalidArgument(f"tool {self._tool_name}: {error}") from None


def _hints(function: Callable[..., Any], tool_name: str, parameters: Collection[str]) -> dict[str, Any]:
    """Returns the types of parameters; an annotation of another one may exist for type checkers only."""
    written = _written(function)
    try:
        return get_type_hints(written, include_extras=True)
    except NameError:
        pass
    plain = inspect.unwrap(written)
    names, local = getattr(plain, "__globals__", {}), _locals_of_the_definition()
    hints: dict[str, Any] = {}
    for name, annotation in getattr(plain, "__annotations__", {}).items():
        if name not in parameters:
            continue
        one: Any = SimpleNamespace(__annotations__={name: annotation})
        try:
            hints |= get_type_hints(one, names, local, include_extras=True)
        except NameError as error:
            raise InvalidArgument(f"tool {tool_name}: the type of parameter {name} is not defined: {error}") from None
    return hints


def _written(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the function that was written with annotations, for one that was made of it."""
    if isinstance(function, functools.partial):
        return _written(function.func)
    if isinstance(function, staticmethod):
        return function.__func__
    return function if inspect.isroutine(function) or inspect.isclass(function) else type(function).__call__


def _locals_of_the_definition() -> dict[str, Any]:
    """Returns the local names where the tool is made: a function may use types of the function around it."""
    frame = sys._getframe()
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).startswith(_PACKAGE):
        frame = frame.f_back
    return dict(frame.f_locals)


def _schema(model: type[pydantic.BaseModel]) -> dict[str, Any]:
    schema = model.model_json_schema()
    schema.pop("title", None)
    for property_schema in schema.get("properties", {}).values():
        property_schema.pop("title", None)
    schema.setdefault("properties", {})
    return schema
