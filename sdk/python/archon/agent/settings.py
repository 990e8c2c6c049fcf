"""Settings of an agent process."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from archon.errors import InvalidArgument
from archon.loopback import has_port, loopback_host, with_port
from archon.process_input import clean_environment
from archon.telemetry.logs import FORMATS, LogFormat

DRAIN_GRACE: Final = 30.0

C = TypeVar("C", bound=str)


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """Settings that depend on where the agent runs. Without a `registry` it serves unregistered. `depends_on` replaces
    the role's own dependencies unless it is None; `max_tasks` replaces the role's own unless it is 0. `ttl` is the
    lease of the registration in seconds, `memory` the memory service (host:port) of `TaskContext.shared`, `drain` how
    long tasks in progress may take after SIGTERM, in seconds. With `attach`, the host:port of an orchestrator, the
    agent does not listen: it opens its sessions itself, and the orchestrator registers it. It does so with
    `orchestrator` (host:port) if it has registered, and no orchestrator can dial it."""

    host: str = field(default_factory=loopback_host)
    port: int = 0
    registry: str = ""
    advertise: str = ""
    depends_on: tuple[str, ...] | None = None
    max_tasks: int = 0
    ttl: float = 10.0
    log_level: str = "info"
    ready_file: Path | None = None
    drain: float = DRAIN_GRACE
    log_format: LogFormat = "auto"
    memory: str = ""
    attach: str = ""
    orchestrator: str = ""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> AgentSettings:
        """ARCHON_HOST, ARCHON_PORT, ARCHON_REGISTRY, ARCHON_ADVERTISE (host or host:port as others dial it),
        ARCHON_DEPENDS_ON (roles, comma separated), ARCHON_MAX_TASKS, ARCHON_TTL, ARCHON_DRAIN, ARCHON_LOG_LEVEL,
        ARCHON_LOG_FORMAT, ARCHON_MEMORY, ARCHON_ATTACH, ARCHON_ORCHESTRATOR,
        ARCHON_READY_FILE. Raises InvalidArgument with the name of the variable."""
        if environment is None:
            clean_environment()
        env = os.environ if environment is None else environment
        depends_on = env.get("ARCHON_DEPENDS_ON")
        ready = env.get("ARCHON_READY_FILE", "")
        return cls(
            host=env.get("ARCHON_HOST") or loopback_host(),
            port=_whole(env, "ARCHON_PORT", 0, 65535),
            registry=env.get("ARCHON_REGISTRY", ""),
            advertise=env.get("ARCHON_ADVERTISE", ""),
            depends_on=None if depends_on is None else roles_in(depends_on),
            max_tasks=_whole(env, "ARCHON_MAX_TASKS", 0, 100_000),
            ttl=_number(env, "ARCHON_TTL", 10.0, 1.0, 3600.0),
            log_level=_choice(env, "ARCHON_LOG_LEVEL", "info", ("debug", "info", "warning", "error")),
            log_format=_choice(env, "ARCHON_LOG_FORMAT", "auto", FORMATS),
            memory=env.get("ARCHON_MEMORY", ""),
            attach=_target(env, "ARCHON_ATTACH"),
            orchestrator=_target(env, "ARCHON_ORCHESTRATOR"),
            ready_file=Path(ready) if ready else None,
            drain=_number(env, "ARCHON_DRAIN", DRAIN_GRACE, 0.0, 3600.0),
        )

    def advertised(self, port: int) -> str:
        """host:port as others dial it."""
        if not self.advertise:
            return with_port(self.host, port)
        return self.advertise if has_port(self.advertise) else with_port(self.advertise, port)


def roles_in(text: str) -> tuple[str, ...]:
    """Returns the roles of a list that is separated by commas."""
    return tuple(role for part in text.split(",") if (role := part.strip()))


def _target(env: Mapping[str, str], name: str) -> str:
    target = env.get(name, "")
    if target and not has_port(target):
        raise InvalidArgument(f"environment variable {name} is {target!r}: not host:port")
    return target


def _whole(env: Mapping[str, str], name: str, least: int, most: int) -> int:
    if env.get(name, "").startswith("tcp://"):
        return 0  # set by Kubernetes for a Service named archon
    value = _number(env, name, 0, least, most)
    if value != int(value):
        raise InvalidArgument(f"environment variable {name} is {env[name]!r}: not a whole number")
    return int(value)


def _number(env: Mapping[str, str], name: str, default: float, least: float, most: float) -> float:
    text = env.get(name, "")
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        raise InvalidArgument(f"environment variable {name} is {text!r}: not a number") from None
    if not least <= value <= most:
        raise InvalidArgument(f"environment variable {name} is {text!r}: must be {least:g} to {most:g}")
    return value


def _choice(env: Mapping[str, str], name: str, default: C, choices: Sequence[C]) -> C:
    text = env.get(name) or default
    for choice in choices:
        if text.lower() == choice:
            return choice
    raise InvalidArgument(f"environment variable {name} is {text!r}: must be one of {', '.join(choices)}")
