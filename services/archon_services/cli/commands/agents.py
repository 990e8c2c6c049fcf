"""`archon agents`: lists the registered instances."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from archon_services.cli.options import JsonOption, RegistryOption, WatchOption
from archon_services.cli.target.mesh import connecting, find_registry

if TYPE_CHECKING:
    from archon.registry import Registration

_HEADERS: Final = (
    *("role", "instance", "address", "version", "tasks", "depends on"),
    *("kind", "lease", "capabilities"),
)
_RIGHT_ALIGNED: Final = (4, 7)
_FOLDED: Final = (5, 8)
_NARROW: Final = 6
"""Columns of a terminal that is narrower than WIDE."""

WIDE: Final = 120
"""Characters."""


def agents(watch: WatchOption = False, as_json: JsonOption = False, registry: RegistryOption = "") -> None:
    """List the registered instances of all roles."""
    from archon_services.cli.render.output import console, is_terminal, print_json, print_table
    from archon_services.cli.watching import repeat

    address = find_registry(registry)

    def show() -> None:
        instances = asyncio.run(_instances(address))
        if as_json:
            print_json([asdict(instance) for instance in instances])
        elif not instances:
            print("No agents are registered.")
        else:
            shown = _NARROW if is_terminal() and console().width < WIDE else len(_HEADERS)
            rows = [_row(instance)[:shown] for instance in instances]
            print_table(_HEADERS[:shown], rows, right=_RIGHT_ALIGNED, folded=_FOLDED)

    repeat(show, watch=watch)


async def _instances(registry: str) -> list[Registration]:
    from archon.registry import RegistryClient

    with connecting("registry", registry):
        async with RegistryClient(registry) as client:
            return await client.list_instances()


def _row(instance: Registration) -> tuple[str, ...]:
    kind = ["coordinator"] * instance.coordinator + ["stateful"] * instance.stateful
    return (
        instance.role,
        instance.instance_id.removeprefix(f"{instance.role}-"),
        instance.address or (f"via {instance.via_orchestrator}" if instance.via_orchestrator else "-"),
        instance.version or "-",
        str(instance.max_tasks),
        ", ".join(dependency.role for dependency in instance.depends_on) or "-",
        ", ".join(kind) or "-",
        f"{instance.ttl:g} s",
        ", ".join(capability.id for capability in instance.capabilities) or "-",
    )
