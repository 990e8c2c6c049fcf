"""The metrics of tool calls and of circuit breakers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from weakref import WeakKeyDictionary, ref

from archon.telemetry import metrics
from archon.telemetry.metrics import Labels, Recorder
from archon_mesh.tools.breaker import CircuitBreaker
from archon_mesh.tools.result import ToolResult, ToolResultStatus


class _Breakers:
    """The breakers of this process that are in use, read by the thread that collects."""

    def __init__(self) -> None:
        self._watched: list[tuple[str, ref[CircuitBreaker]]] = []

    def add(self, name: str, breaker: CircuitBreaker) -> None:
        """Adds a breaker, and drops those that are gone."""
        self._watched = [each for each in self._watched if each[1]() is not None] + [(name, ref(breaker))]

    def read(self) -> Iterable[tuple[Labels, float]]:
        """Yields 1 for the state of each breaker."""
        for name, watched in self._watched:
            if (breaker := watched()) is not None:
                yield (name, breaker.state.value), 1


_breakers: Final[WeakKeyDictionary[Recorder, _Breakers]] = WeakKeyDictionary()


def record_call(
    recorder: Recorder, name: str, result: ToolResult, seconds: float, attempts: int, is_cached: bool
) -> None:
    """Records a call of a registered tool, whether or not it reached the tool."""
    if is_cached:
        outcome = "cached"
    elif not attempts:
        outcome = "refused"
    elif result.status is ToolResultStatus.TIMEOUT:
        outcome = "timeout"
    else:
        outcome = "success" if result.ok else "error"
    recorder.add(metrics.TOOL_CALLS, (name, outcome))
    if attempts:
        recorder.record(metrics.TOOL_DURATION, seconds, (name,))


def watch_breaker(recorder: Recorder, name: str, breaker: CircuitBreaker) -> None:
    """Exports the state of a breaker for as long as it is in use."""
    breakers = _breakers.get(recorder)
    if breakers is None:
        breakers = _breakers[recorder] = _Breakers()
        recorder.observe(metrics.TOOL_BREAKERS, breakers.read)
    breakers.add(name, breaker)
