"""Arithmetic as a tool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from typing_extensions import override

from archon_mesh.tools.builtin.arithmetic import Number, evaluate
from archon_mesh.tools.tool import Tool

_PARAMETERS: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {"expression": {"type": "string", "pattern": r"\S", "description": "such as 2 * (3 + 4) ^ 2"}},
    "required": ["expression"],
    "additionalProperties": False,
}


class Calculator(Tool):
    """Evaluates an arithmetic expression; `archon_mesh.tools.builtin.arithmetic` has the grammar."""

    name = "calculator"
    description = (
        "Evaluates an arithmetic expression: + - * / // % ^ !, per cent (15% of 200), parentheses, pi, e, and "
        "functions such as sqrt, round, ln, log, sin (radians), min, max."
    )
    parameters_schema = _PARAMETERS
    idempotent = True

    @override
    async def execute(self, **kwargs: Any) -> Number:
        return evaluate(kwargs["expression"])
