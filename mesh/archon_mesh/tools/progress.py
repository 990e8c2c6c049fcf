"""Progress of a tool call, for people who wait for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_report: ContextVar[Callable[[str], None] | None] = ContextVar("archon_tool_progress", default=None)


def tell_progress(text: str) -> None:
    """Tells the agent that executes this tool from elsewhere about its progress; does nothing for any other call. Never
    waits; a plain function may call it from its thread."""
    report = _report.get()
    if report is not None:
        report(text)


@contextmanager
def bind_progress(report: Callable[[str], None]) -> Iterator[None]:
    """Has `report` called with the progress of tools within the block."""
    token = _report.set(report)
    try:
        yield
    finally:
        _report.reset(token)
