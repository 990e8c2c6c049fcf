"""`archon agents`: who is there."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING

from archon_services.cli.target.mesh import JsonOption, RegistryOption, find_registry, reaching

if TYPE_CHECKING:
    from archon.registry import Registration


def agents(as_json: JsonOption = False, registry: RegistryOption = "") -> None:
    """List the living instances and what they can do."""
    from archon_services.cli.render.output import print_json, print_table

    instances = asyncio.run(_instances(find_registry(registry)))
    if as_json:
        print_json([asdict(one) for one in instances])
    elif not instances:
        print("No agent is registered.")
    else:
        headers = ("role", "instance", "version", "address", "max tasks", "lease", "depends on", "capabilities")
        print_table(headers, [_row(one) for one in instances], right=(4, 5))


async def _instances(registry: str) -> list[Registration]:
    from archon.registry import RegistryClient

    with reaching("registry", registry):
        async with RegistryClient(registry) as client:
            return await client.list_instances()


def _row(one: Registration) -> tuple[str, ...]:
    return (
        one.role,
        one.instance_id,
        one.version or "-",
        one.address or (f"via {one.via_orchestrator}" if one.via_orchestrator else "-"),
        str(one.max_tasks),
        f"{one.ttl:g} s",
        ", ".join(
            [each.role for each in one.depends_on]
            + ["(coordinates)"] * one.coordinator
            + ["(remembers)"] * one.stateful
        )
        or "-",
        ", ".join(each.id for each in one.capabilities) or "-",
    )
