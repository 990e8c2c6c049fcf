"""How the calls of an agent's tools have ended, for Describe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from archon.api.agent.v1 import agent_service_pb2
from archon.wire import duration, to_seconds

BreakerState = Literal["closed", "open", "half_open", ""]
"""The state of a circuit breaker; empty if there is none."""

_BREAKERS: Final[dict[BreakerState, agent_service_pb2.CircuitBreakerState.ValueType]] = {
    "closed": agent_service_pb2.CIRCUIT_BREAKER_STATE_CLOSED,
    "open": agent_service_pb2.CIRCUIT_BREAKER_STATE_OPEN,
    "half_open": agent_service_pb2.CIRCUIT_BREAKER_STATE_HALF_OPEN,
    "": agent_service_pb2.CIRCUIT_BREAKER_STATE_UNSPECIFIED,
}
_BREAKER_OF: Final[dict[int, BreakerState]] = {int(number): state for state, number in _BREAKERS.items()}


@dataclass(frozen=True, slots=True)
class ToolHealth:
    """How the calls of the tool `name` have ended since the process started.

    `calls` counts the executed calls, `failures` the ones that failed, `timeouts` the failures by timeout, `cached`
    further calls that were answered from a cache. Latencies are in seconds, of the last 100 executed calls. `slow`: a
    call timed out in the last minute, and none has succeeded since.
    """

    name: str
    version: str = ""
    calls: int = 0
    failures: int = 0
    timeouts: int = 0
    cached: int = 0
    mean_latency: float = 0.0
    p95_latency: float = 0.0
    slow: bool = False
    breaker: BreakerState = ""

    @property
    def proto(self) -> agent_service_pb2.ToolHealth:
        """The health as a message."""
        return agent_service_pb2.ToolHealth(
            name=self.name,
            version=self.version,
            calls=self.calls,
            failures=self.failures,
            timeouts=self.timeouts,
            cached=self.cached,
            mean_latency=duration(self.mean_latency),
            p95_latency=duration(self.p95_latency),
            slow=self.slow,
            breaker=_BREAKERS[self.breaker],
        )

    @classmethod
    def from_proto(cls, message: agent_service_pb2.ToolHealth) -> ToolHealth:
        """Returns the health that a message has."""
        return cls(
            message.name,
            message.version,
            message.calls,
            message.failures,
            message.timeouts,
            message.cached,
            to_seconds(message.mean_latency),
            to_seconds(message.p95_latency),
            message.slow,
            _BREAKER_OF.get(message.breaker, ""),
        )
