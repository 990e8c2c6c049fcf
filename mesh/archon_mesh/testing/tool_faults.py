"""A tool that fails by name, around any tool."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from typing_extensions import override

from archon_mesh.testing.injected_fault import CallFaults, InjectedFault, NamedFault
from archon_mesh.tools import Tool


class ToolFault(NamedFault):
    """The faults of a tool, for `FaultyTool.fault`."""

    RAISES = (
        "raises",
        "the tool raises `RuntimeError`",
        "the model receives an error result; nothing is called again",
    )
    UNAVAILABLE = (
        "unavailable",
        "the tool raises `ConnectionError`, as for a service that is down",
        "an idempotent tool is called again, up to 2 times; then its `alternative`, or an error result",
    )
    TIMES_OUT = (
        "times_out",
        "the tool does not return",
        "the call ends after the time limit of the tool; the model receives a result that says so",
    )
    GARBAGE = (
        "garbage",
        "the tool returns a text that is no result of it",
        "the model, or the next node of a composite tool, receives this text",
    )


GARBAGE: Final = "\x00\ufffd{]"
"""The result of a tool with the fault `garbage`."""

_FIELDS: Final = tuple(name for name in Tool.__annotations__ if not name.startswith("_"))


class FaultyTool(Tool):
    """A tool around `tool`, with its name, schema and limits, that fails while a fault is active:

        weather = FaultyTool(get_weather)
        async with weather.fault("times_out"):
            ...

    Of several active faults the last one hits.
    """

    def __init__(self, tool: Tool) -> None:
        for name in _FIELDS:
            setattr(self, name, getattr(tool, name))
        self._tool = tool
        self._faults = CallFaults(ToolFault)

    @property
    def failed(self) -> int:
        """The number of calls that a fault has hit."""
        return self._faults.hits

    def fault(self, fault: ToolFault | str, *, times: int | None = None) -> InjectedFault:
        """Returns a fault that hits all calls from its start until it is healed, or the first `times` of them.

        Raises InvalidArgument if there is no fault of this name, or `times` is below 1.
        """
        return self._faults.inject(fault, times)

    @override
    def validate_args(self, args: Mapping[str, Any]) -> str | None:
        return self._tool.validate_args(args)

    @override
    def convert_args(self, args: Mapping[str, Any]) -> dict[str, Any]:
        return self._tool.convert_args(args)

    @override
    async def execute(self, /, **kwargs: Any) -> Any:
        hit = self._faults.hit()
        match hit and hit.fault:
            case None:
                return await self._tool.execute(**kwargs)
            case ToolFault.TIMES_OUT:
                await asyncio.Event().wait()
            case ToolFault.UNAVAILABLE:
                raise ConnectionError(f"the service of the tool {self.name} is down")
            case ToolFault.GARBAGE:
                return GARBAGE
        raise RuntimeError(f"the tool {self.name} has failed")
