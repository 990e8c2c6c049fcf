"""One log line per call of a model and of a tool: its usage and outcome, never its content.

The logger is `archon.calls`, at INFO, in the process that makes the call. The message alone is sufficient for a program
with a logging of its own; lines of Archon have the same as fields (`archon.telemetry.logs`).
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from archon.errors import ArchonError
from archon_mesh.llm.base import Usage

OK: Final = "ok"
FAILED: Final = "failed"
CANCELLED: Final = "cancelled"

_log = logging.getLogger("archon.calls")


def log_model_call(
    model: str, seconds: float, *, agent: str = "", usage: Usage | None = None, error: BaseException | None = None
) -> None:
    """Logs one try of a model call: with `usage` one that succeeded, with `error` one that did not."""
    if not _log.isEnabledFor(logging.INFO):
        return
    outcome, reason = _end(error)
    fields: dict[str, Any] = {"agent": agent, "model": model, "seconds": round(seconds, 6)}
    spent = ""
    if usage is not None:
        fields |= {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
        spent = f", {usage.input_tokens:,} tokens in, {usage.output_tokens:,} out"
        if usage.cost_micro_usd:
            fields["cost_usd"] = usage.cost_micro_usd / 1e6
            spent += f", ${usage.cost_micro_usd / 1e6:.6f}"
    fields |= {"outcome": outcome} | ({"reason": reason} if reason else {})
    _log.info("model %s: %s in %.3f s%s", model, _end_text(outcome, reason), seconds, spent, extra=fields)


def log_tool_call(tool: str, seconds: float, *, agent: str = "", outcome: str = OK, reason: str = "") -> None:
    """Logs one call of a tool, its retries included."""
    if not _log.isEnabledFor(logging.INFO):
        return
    fields = {"agent": agent, "tool": tool, "seconds": round(seconds, 6), "outcome": outcome}
    fields |= {"reason": reason} if reason else {}
    _log.info("tool %s: %s in %.3f s", tool, _end_text(outcome, reason), seconds, extra=fields)


def _end(error: BaseException | None) -> tuple[str, str]:
    """Returns how a call ended, and the reason of its error. The message may have contents; the reason has none."""
    if error is None:
        return OK, ""
    if isinstance(error, (asyncio.CancelledError, GeneratorExit)):
        return CANCELLED, ""
    return FAILED, error.reason if isinstance(error, ArchonError) else type(error).__name__


def _end_text(outcome: str, reason: str) -> str:
    return f"{outcome} ({reason})" if reason else outcome
