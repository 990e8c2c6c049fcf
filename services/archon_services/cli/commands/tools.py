"""`archon tools`: lists the tools of the registered instances, how their calls have ended, and which they share."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from archon_services.cli.options import JsonOption, RegistryOption, WatchOption
from archon_services.cli.render.output import console, is_terminal, print_json, print_table
from archon_services.cli.target.mesh import connecting, find_registry
from archon_services.cli.watching import repeat

if TYPE_CHECKING:
    from archon.api.agent.v1.agent_service_pb2 import ToolHealth
    from archon.registry import Registration
    from archon.security.credentials import Credentials
    from archon.security.tokens import Audience
    from archon.tools import FoundTool

_HEADERS: Final = (
    *("role", "instance", "tool", "version", "state"),
    *("calls", "failed", "timed out", "cached", "mean", "p95"),
)
_RIGHT_ALIGNED: Final = frozenset({"calls", "failed", "timed out", "cached", "mean", "p95"})
_NARROW: Final = ("role", "tool", "state", "calls", "failed", "mean", "p95")
"""Columns of a terminal that is narrower than WIDE."""

_UNKNOWN: Final = "-"

ASKED: Final = 100
"""Instances that are asked for the health of their tools."""

WIDE: Final = 120
"""Characters."""


def tools(
    role: Annotated[str, typer.Argument(metavar="[ROLE]", help="Only the instances of this role.")] = "",
    mesh: Annotated[
        bool, typer.Option("--mesh", help="Only the tools that agents share with others, with their terms, best first.")
    ] = False,
    watch: WatchOption = False,
    as_json: JsonOption = False,
    registry: RegistryOption = "",
) -> None:
    """List the tools of all roles: their calls since the process of their instance started, and how they ended.

    A tool is `slow` for a minute after a call timed out, `off` while its circuit breaker refuses calls because too many
    have failed, and `probing` while one call finds out whether it works again.

    With --mesh, success and latency count the calls of other agents, as the owners advertise them once a minute; the
    terms are for one lease.
    """
    address = find_registry(registry)

    def show_shared() -> None:
        from archon_services.cli.render import shared_tools

        rows = shared_tools.rows_of(asyncio.run(_shared_tools(address, role)))
        if as_json:
            print_json([asdict(row) for row in rows])
        elif not rows:
            print(f"No registered instance of {role} shares tools." if role else "No registered instance shares tools.")
        else:
            print_table(
                shared_tools.HEADERS,
                [shared_tools.cells_of(row) for row in rows],
                right=shared_tools.RIGHT_ALIGNED,
                folded=shared_tools.FOLDED,
            )

    def show() -> None:
        found = asyncio.run(_tools(address, role))
        if as_json:
            print_json([asdict(tool) for tool in found])
        elif not found:
            print(f"No registered instance of {role} has tools." if role else "No registered instance has tools.")
        else:
            headers = _NARROW if is_terminal() and console().width < WIDE else _HEADERS
            print_table(
                headers,
                [[row[header] for header in headers] for row in map(_row, found)],
                right=[column for column, header in enumerate(headers) if header in _RIGHT_ALIGNED],
            )

    repeat(show_shared if mesh else show, watch=watch)


@dataclass(frozen=True, slots=True)
class _Tool:
    """A tool of an instance. Counts and latencies (milliseconds) are None if the instance does not tell."""

    role: str
    instance_id: str
    name: str
    version: str = ""
    state: str = ""
    """ok, slow, off or probing; empty if the instance does not tell."""

    calls: int | None = None
    failures: int | None = None
    timeouts: int | None = None
    cached: int | None = None
    mean_latency_ms: float | None = None
    p95_latency_ms: float | None = None


async def _shared_tools(registry: str, role: str) -> list[FoundTool]:
    from archon.tools import find_tools

    with connecting("registry", registry):
        return await find_tools(registry, role=role)


async def _tools(registry: str, role: str) -> list[_Tool]:
    from archon.registry import RegistryClient
    from archon.registry.instance_channel import credentials_of_mesh

    with connecting("registry", registry):
        async with RegistryClient(registry) as client:
            instances = await client.list_instances(role)
    credentials = credentials_of_mesh(registry)
    told = await asyncio.gather(*(_health(instance, credentials) for instance in instances[:ASKED]))
    return [
        tool
        for number, instance in enumerate(instances)
        for tool in _of(instance, told[number] if number < ASKED else {})
    ]


async def _health(instance: Registration, credentials: Mapping[Audience, Credentials]) -> dict[str, ToolHealth]:
    from archon_services.local_mesh.probe import Probe

    if not instance.dialled_at:
        return {}
    async with Probe.of(instance, credentials) as probe:
        described = await probe.describe()
    return {health.name: health for health in described.tools} if described is not None else {}


def _of(instance: Registration, told: dict[str, ToolHealth]) -> list[_Tool]:
    """Returns the tools of an instance: those that it has registered, and those that it tells about."""
    names = sorted({tool.name for tool in instance.tools} | told.keys())
    return [_tool(instance, name, told.get(name)) for name in names]


def _tool(instance: Registration, name: str, health: ToolHealth | None) -> _Tool:
    from archon.wire import to_seconds

    if health is None:
        return _Tool(instance.role, instance.instance_id, name)
    return _Tool(
        instance.role,
        instance.instance_id,
        name,
        health.version,
        _state(health),
        health.calls,
        health.failures,
        health.timeouts,
        health.cached,
        round(to_seconds(health.mean_latency) * 1000, 3),
        round(to_seconds(health.p95_latency) * 1000, 3),
    )


def _state(health: ToolHealth) -> str:
    from archon.api.agent.v1 import agent_service_pb2 as pb

    if health.breaker == pb.CIRCUIT_BREAKER_STATE_OPEN:
        return "off"
    if health.breaker == pb.CIRCUIT_BREAKER_STATE_HALF_OPEN:
        return "probing"
    return "slow" if health.slow else "ok"


def _row(tool: _Tool) -> dict[str, str]:
    counts = (tool.calls, tool.failures, tool.timeouts, tool.cached)
    # Without an executed call there is no latency.
    latencies = (tool.mean_latency_ms, tool.p95_latency_ms) if tool.calls else (None, None)
    cells: tuple[Any, ...] = (
        tool.role,
        tool.instance_id.removeprefix(f"{tool.role}-"),
        tool.name,
        tool.version or _UNKNOWN,
        tool.state or _UNKNOWN,
        *(_UNKNOWN if count is None else f"{count:,}" for count in counts),
        *(_UNKNOWN if latency is None else f"{latency:,.1f} ms" for latency in latencies),
    )
    return dict(zip(_HEADERS, cells, strict=True))
