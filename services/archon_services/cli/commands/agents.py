"""`archon agents`: lists the registered instances."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from archon_services.cli.options import JsonOption, RegistryOption
from archon_services.cli.target.mesh import connecting, find_registry

if TYPE_CHECKING:
    from archon.registry import Registration

# The columns that identify an instance come first, so that they fit into 80 characters.
_HEADERS: Final = (
    *("role", "instance", "address", "depends on"),
    *("kind", "max tasks", "lease", "version", "capabilities"),
)
_RIGHT_ALIGNED: Final = (5, 6)


def agents(as_json: JsonOption = False, registry: RegistryOption = "") -> None:
    """List the registered instances of all roles."""
    from archon_services.cli.render.output import print_json, print_table

    instances = asyncio.run(_instances(find_registry(registry)))
    if as_json:
        print_json([asdict(instance) for instance in instances])
    elif not instances:
        print("No agents are registered.")
    else:
        print_table(_HEADERS, [_row(instance) for instance in instances], right=_RIGHT_ALIGNED)


async def _instances(registry: str) -> list[Registration]:
    from archon.registry import RegistryClient

    with connecting("registry", registry):
        async with RegistryClient(registry) as client:
            return await client.list_instances()


def _row(instance: Registration) -> tuple[str, ...]:
    kind = ["coordinator"] * instance.coordinator + ["stateful"] * instance.stateful
    return (
        instance.role,
        instance.instance_id,
        instance.address or (f"via {instance.via_orchestrator}" if instance.via_orchestrator else "-"),
        ", ".join(dependency.role for dependency in instance.depends_on) or "-",
        ", ".join(kind) or "-",
        str(instance.max_tasks),
        f"{instance.ttl:g} s",
        instance.version or "-",
        ", ".join(capability.id for capability in instance.capabilities) or "-",
    )
