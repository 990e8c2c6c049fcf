"""`archon agents`: lists the registered instances."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from archon_services.cli.options import JsonOption, RegistryOption, WatchOption
from archon_services.cli.target.mesh import connecting, find_registry

if TYPE_CHECKING:
    from archon.registry import Registration

_HEADERS: Final = (
    *("role", "instance", "address", "version", "tasks", "state", "model", "depends on"),
    *("kind", "lease", "capabilities"),
)
_RIGHT_ALIGNED: Final = frozenset({"tasks", "lease"})
_FOLDED: Final = frozenset({"model", "depends on", "capabilities"})
_NARROW: Final = ("role", "instance", "address", "tasks", "state", "model")
"""Columns of a terminal that is narrower than WIDE."""

_ANSWERS: Final = {True: "healthy", False: "silent", None: "-"}

PROBED: Final = 100
"""Instances of which is checked whether they answer."""

WIDE: Final = 120
"""Characters."""


def agents(watch: WatchOption = False, as_json: JsonOption = False, registry: RegistryOption = "") -> None:
    """List the registered instances of all roles.

    An instance is `silent` if it does not answer health checks of this machine: its process has died, and its
    registration ends with its lease, or it is reachable only from elsewhere.
    """
    from archon_services.cli.render.output import console, is_terminal, print_json, print_table
    from archon_services.cli.watching import repeat

    address = find_registry(registry)

    def show() -> None:
        instances = asyncio.run(_instances(address))
        if as_json:
            print_json([{**asdict(instance), "answers": answers} for instance, answers in instances])
        elif not instances:
            print("No agents are registered.")
        else:
            headers = _NARROW if is_terminal() and console().width < WIDE else _HEADERS
            rows = [_row(instance, answers) for instance, answers in instances]
            print_table(
                headers,
                [[row[header] for header in headers] for row in rows],
                right=[column for column, header in enumerate(headers) if header in _RIGHT_ALIGNED],
                folded=[column for column, header in enumerate(headers) if header in _FOLDED],
            )

    repeat(show, watch=watch)


async def _instances(registry: str) -> list[tuple[Registration, bool | None]]:
    """Returns the instances, and whether they answer; None if that was not checked."""
    from archon.registry import RegistryClient

    with connecting("registry", registry):
        async with RegistryClient(registry) as client:
            instances = await client.list_instances()
    answers = await asyncio.gather(*(_answers(instance) for instance in instances[:PROBED]))
    return list(zip_longest(instances, answers))


async def _answers(instance: Registration) -> bool | None:
    from archon_services.local_mesh.probe import Probe

    if not instance.address:
        return None
    async with Probe("agent", instance.address) as probe:
        return await probe.serves()


def _row(instance: Registration, answers: bool | None) -> dict[str, str]:
    kind = ["coordinator"] * instance.coordinator + ["stateful"] * instance.stateful
    cells = (
        instance.role,
        instance.instance_id.removeprefix(f"{instance.role}-"),
        instance.address or (f"via {instance.via_orchestrator}" if instance.via_orchestrator else "-"),
        instance.version or "-",
        str(instance.max_tasks),
        _ANSWERS[answers],
        instance.tags.get("model") or "-",
        ", ".join(dependency.role for dependency in instance.depends_on) or "-",
        ", ".join(kind) or "-",
        f"{instance.ttl:g} s",
        ", ".join(capability.id for capability in instance.capabilities) or "-",
    )
    return dict(zip(_HEADERS, cells, strict=True))
