"""Python programs as a tool."""

from __future__ import annotations

import pytest

from archon.errors import FailedPrecondition
from archon_mesh.tools.builtin import PythonTool, SandboxLimits
from archon_mesh.tools.builtin.sandbox import sandbox

LIMITS = SandboxLimits(seconds=30.0, cpu_seconds=1, output_bytes=10_000)


@pytest.mark.usefixtures("sandbox")
@pytest.mark.parametrize(
    ("code", "status", "content"),
    [
        ("print(6 * 7)", "success", "42\n"),
        ("x = 1", "success", "(the program printed nothing)"),
        ("print('before')\n1 / 0", "error", "the program ended with exit code 1: ZeroDivisionError: division by zero"),
        ("import sys\nsys.exit('no data')", "error", "the program ended with exit code 1: no data"),
        ("while True: pass", "error", "the program was stopped after 1 s of CPU time"),
        ("while True: print('x')", "error", "the program was stopped: it printed more than 10,000 bytes"),
        ("a syntax error", "error", "the program ended with exit code 1: SyntaxError: invalid syntax"),
        ("print('\\ud800')", "error", "the program ended with exit code 1: UnicodeEncodeError"),
    ],
)
async def test_the_result_is_what_the_program_prints_or_why_it_ended(code: str, status: str, content: str) -> None:
    result = await PythonTool(LIMITS).execute(code=code)
    assert result.status == status
    assert str(result.content).startswith(content)


@pytest.mark.usefixtures("sandbox")
async def test_a_program_that_takes_too_long_is_a_timeout() -> None:
    result = await PythonTool(SandboxLimits(seconds=1.0)).execute(code="import time\ntime.sleep(60)")
    assert (result.status, result.content) == ("timeout", "the program was stopped after 1 s")


@pytest.mark.usefixtures("sandbox")
async def test_a_program_that_is_too_large_is_refused() -> None:
    tool = PythonTool(SandboxLimits(code_bytes=10))
    with pytest.raises(ValueError, match="the program has 11 bytes, at most 10 are allowed"):
        await tool.execute(code="print('1')\n")


def test_without_namespaces_the_tool_cannot_be_enabled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "_why_unavailable", lambda: "unshare: Operation not permitted")
    with pytest.raises(
        FailedPrecondition, match="cannot be sandboxed on this machine: unshare: Operation not permitted"
    ):
        PythonTool()
