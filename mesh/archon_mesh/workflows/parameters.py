"""The parameters of a workflow: their types, and the values that a run is given."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from archon.answers import is_number
from archon.errors import FieldViolation, InvalidArgument
from archon.json_text import json_or
from archon_mesh.workflows.schema import ParameterPart

_NOUNS: Final = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "list": "a list",
    "object": "an object",
}


_IS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": is_number,
    "boolean": lambda value: isinstance(value, bool),
    "list": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


def value_fault(parameter: ParameterPart, value: Any) -> str:
    """Returns the fault of a parameter's value, or an empty text."""
    if not _IS[parameter.type](value):
        return f"must be {_NOUNS[parameter.type]}"
    # By type as well, because True equals 1.
    if parameter.enum is not None and not any(type(each) is type(value) and each == value for each in parameter.enum):
        return f"must be one of {', '.join(map(_text, parameter.enum))}"
    return ""


def checked_arguments(
    workflow: str, parameters: Mapping[str, ParameterPart], given: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the values of all parameters of a workflow. Raises InvalidArgument with a violation for each parameter
    that is wrong, missing or unknown."""
    faults = [
        (name, fault)
        for name, parameter in parameters.items()
        if (fault := value_fault(parameter, given[name]) if name in given else "is missing" * parameter.required)
    ]
    known = f"; there are {', '.join(parameters)}" if parameters else ""
    faults += [(name, f"is no parameter{known}") for name in given if name not in parameters]
    if faults:
        raise InvalidArgument(
            f"workflow {workflow}: " + "; ".join(f"{name}: {fault}" for name, fault in faults),
            field_violations=[FieldViolation(name, fault) for name, fault in faults],
        )
    return {
        name: given.get(name, parameter.default)
        for name, parameter in parameters.items()
        if name in given or not parameter.required
    }


def from_text(parameter: ParameterPart, text: str) -> Any:
    """Returns the value of a text, as it is given on a command line; the text itself if it has not the type."""
    if parameter.type == "string":
        return text
    value = json_or(text, text)
    # Of JSON, which has no other numbers.
    return text if isinstance(value, float) and not math.isfinite(value) else value


def json_schema(parameters: Mapping[str, ParameterPart]) -> dict[str, Any]:
    """Returns the JSON Schema of the values, as a model sees it."""
    names = {"list": "array"}
    properties = {
        name: {"type": names.get(parameter.type, parameter.type)}
        | ({"description": parameter.description} if parameter.description else {})
        | ({"enum": parameter.enum} if parameter.enum is not None else {})
        | ({} if parameter.required else {"default": parameter.default})
        for name, parameter in parameters.items()
    }
    required = [name for name, parameter in parameters.items() if parameter.required]
    return {"type": "object", "properties": properties, "required": required}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
