"""What the generated pages share: tables in Markdown, and the types of pydantic fields in words."""

from __future__ import annotations

import types
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le
from pydantic import BaseModel

REFERENCE: Final = Path(__file__).parents[3] / "docs" / "reference"

_NAMES: Final[dict[Any, str]] = {
    str: "text",
    int: "integer",
    float: "number",
    bool: "`true` or `false`",
    Path: "path",
    Any: "any value",
    type(None): "empty",
}


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Renders a table; a `|` in a cell is escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines) + "\n"


def code(text: str) -> str:
    """Renders a text as code; an empty one as nothing."""
    return f"`{text}`" if text else ""


def kind_of(annotation: Any, metadata: Sequence[Any] = ()) -> str:
    """Describes the values of a field by its type and bounds: `integer, at least 1`. Raises TypeError for a type that
    the pages have no word for."""
    low = next((bound.ge for bound in metadata if isinstance(bound, Ge)), None)
    above = next((bound.gt for bound in metadata if isinstance(bound, Gt)), None)
    high = next((bound.le for bound in metadata if isinstance(bound, Le)), None)
    bounds = [] if above is None else [f"above {above:g}"]
    if low is not None and high is not None:
        bounds.append(f"{low:,g} to {high:,g}")
    elif low is not None:
        bounds.append(f"at least {low:,}")
    elif high is not None:
        bounds.append(f"at most {high:,g}")
    return ", ".join([_kind_of(annotation), *bounds])


def _kind_of(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return kind_of(arguments[0], [bound for info in arguments[1:] for bound in getattr(info, "metadata", [info])])
    if origin is Literal:
        return ", ".join(code(str(value)) for value in arguments)
    if origin in (Union, types.UnionType):
        return " or ".join(kind_of(argument) for argument in arguments if argument is not type(None))
    if origin is list:
        return f"list of {kind_of(arguments[0])}"
    if origin is dict:
        return f"mapping of {kind_of(arguments[1])}"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation.__name__
    if annotation not in _NAMES:
        raise TypeError(f"no word for the type {annotation!r}")
    return _NAMES[annotation]
