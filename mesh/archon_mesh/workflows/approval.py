"""The approval of a person, as a tool: a step with `approve` calls it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from typing_extensions import override

from archon.errors import PermissionDenied
from archon_mesh.tools.result import ToolResult
from archon_mesh.tools.tool import Tool

APPROVE: Final = "approve"
"""The name of the tool."""

APPROVED: Final = "approved"
"""The result of a step that was approved."""

ANSWERS: Final = ("approve", "reject")

SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {"question": {"type": "string"}},
    "required": ["question"],
}


class Rejected(PermissionDenied):
    """A person rejected what a step asked about."""


def is_approved(answer: str) -> bool:
    """Tells whether the text of an answer approves: it does if its first word is approve, yes, y or ok."""
    words = answer.strip().strip('"').lower().split()
    return bool(words) and words[0].rstrip(".,!:") in ("approve", "approved", "yes", "y", "ok")


class ApprovalTool(Tool):
    """Asks a person by a function, for workflows that an agent executes in this process. A call is made once."""

    name = APPROVE
    description = "Asks a person for an approval."
    parameters_schema = SCHEMA
    timeout = float("inf")

    def __init__(self, ask: Callable[[str], Awaitable[bool]]) -> None:
        """`ask` gets the question, and returns whether it was approved."""
        self._ask = ask

    @override
    async def execute(self, **kwargs: Any) -> ToolResult:
        if await self._ask(str(kwargs["question"])):
            return ToolResult.success(APPROVED)
        return ToolResult.error(f"a person rejected it: {kwargs['question']}")
