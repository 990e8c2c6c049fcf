"""Finds the tools that live instances share, best first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from archon.registry import Registration, RegistryClient, Tool, ToolShare

PRIOR_CALLS: Final = 10
PRIOR_RATE: Final = 0.9
"""A success rate of few calls says little: it is taken together with this many calls of this rate."""

FIND_SECONDS: Final = 5.0
"""Seconds for each call of the registry."""


@dataclass(frozen=True, slots=True)
class FoundTool:
    """A tool that an instance shares, with its terms. `address` is host:port of the instance; if it is empty, the
    instance is attached to the orchestrator `via_orchestrator`, which relays calls."""

    tool: Tool
    role: str
    instance_id: str
    address: str
    via_orchestrator: str = ""

    @property
    def name(self) -> str:
        """The name of the tool."""
        return self.tool.name

    @property
    def instance(self) -> Registration:
        """The owner, as far as a connection to it needs."""
        return Registration(
            self.role, address=self.address, instance_id=self.instance_id, via_orchestrator=self.via_orchestrator
        )

    @property
    def share(self) -> ToolShare:
        """The terms of the tool, and how its calls have ended."""
        return self.tool.share or ToolShare()

    @property
    def expected_success(self) -> float:
        """The success rate, 0 to 1; with few calls it is nearer to PRIOR_RATE."""
        share = self.share
        calls = max(0, share.calls)
        rate = min(1.0, max(0.0, share.success_rate))  # NaN becomes 0
        return (calls * rate + PRIOR_CALLS * PRIOR_RATE) / (calls + PRIOR_CALLS)


async def find_tools(
    registry: RegistryClient | str,
    *,
    name: str = "",
    role: str = "",
    capability: str = "",
    words: str = "",
    timeout: float = FIND_SECONDS,
) -> list[FoundTool]:
    """Returns the shared tools of all live instances, one for each instance, best first: by success rate, then by
    latency. `registry` is a client, or host:port. `name` is a tool's name; `role` and `capability` are its owner's;
    `words` all occur in its name, title or description, or in the owner's role. Raises Unavailable and DeadlineExceeded
    if the registry is not reachable within `timeout` seconds."""
    if isinstance(registry, str):
        async with RegistryClient(registry) as client:
            return await find_tools(client, name=name, role=role, capability=capability, words=words, timeout=timeout)
    instances = await registry.list_instances(role, timeout=timeout)
    return shared_by(instances, name=name, capability=capability, words=words)


def shared_by(
    instances: Iterable[Registration], *, name: str = "", role: str = "", capability: str = "", words: str = ""
) -> list[FoundTool]:
    """Returns the shared tools of registrations, as `find_tools` does."""
    wanted = words.casefold().split()
    found = [
        FoundTool(tool, instance.role, instance.instance_id, instance.address, instance.via_orchestrator)
        for instance in instances
        if not role or instance.role == role
        if not capability or any(offered.id == capability for offered in instance.capabilities)
        for tool in instance.tools
        if tool.share is not None and (not name or tool.name == name)
        if _has(wanted, f"{tool.name} {tool.title} {tool.description} {instance.role}" if wanted else "")
    ]
    return sorted(found, key=_rank)


def _has(words: list[str], text: str) -> bool:
    folded = text.casefold()
    return all(word in folded for word in words)


def _rank(found: FoundTool) -> tuple[float, float, str, str, str]:
    # Latencies tell tools of about the same success rate apart.
    return -round(found.expected_success, 1), found.share.mean_latency, found.role, found.name, found.instance_id
