"""Python programs as a tool, in a sandbox."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from typing_extensions import override

from archon_mesh.tools.builtin.sandbox import DEFAULT, SandboxLimits, SandboxResult, check_available, run_sandboxed
from archon_mesh.tools.result import ToolResult
from archon_mesh.tools.tool import Tool

STARTING: Final = 10.0
"""Seconds that starting and ending a sandbox may take beside the program."""

_PARAMETERS: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "code": {"type": "string", "pattern": r"\S", "description": "a Python program; what it prints is the result"}
    },
    "required": ["code"],
    "additionalProperties": False,
}


class PythonTool(Tool):
    """Runs a Python program that a model has written, in a sandbox: docs/tools.md describes it.

    Dangerous: it is available only where a policy allows it by name.
    """

    name = "run_python"
    description = (
        "Runs a Python program and returns what it prints. It has the standard library, an empty folder /tmp, and no "
        "network; nothing is kept from call to call."
    )
    parameters_schema = _PARAMETERS
    dangerous = True
    produces = ("text/plain",)

    def __init__(self, limits: SandboxLimits = DEFAULT) -> None:
        """Raises FailedPrecondition if this machine cannot sandbox programs."""
        check_available()
        self.limits = limits
        self.timeout = self.limits.seconds + STARTING

    @override
    async def execute(self, **kwargs: Any) -> ToolResult:
        ran = await run_sandboxed(kwargs["code"], self.limits)
        metadata = {"exit_code": ran.exit_code, "killed": ran.killed}
        if ran.killed == "time":
            return ToolResult.timeout(self._why(ran), metadata)
        if ran.exit_code:
            return ToolResult.error(self._why(ran), metadata)
        return ToolResult.success(ran.stdout or "(the program printed nothing)", metadata)

    def _why(self, ran: SandboxResult) -> str:
        """The reason first, then the end of the program's output: messages to models are cut."""
        limits = self.limits
        reasons = {
            "time": f"the program was stopped after {limits.seconds:g} s",
            "cpu": f"the program was stopped after {limits.cpu_seconds} s of CPU time",
            "output": f"the program was stopped: it printed more than {limits.output_bytes:,} bytes",
        }
        printed = ran.stderr.strip() or ran.stdout.strip()
        last = printed.rpartition("\n")[2]
        reason = reasons.get(ran.killed, f"the program ended with exit code {ran.exit_code}: {last}")
        return f"{reason}\n{printed[-2_000:]}" if printed and printed != last else reason
