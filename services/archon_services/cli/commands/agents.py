"""`archon agents`: lists the registered instances."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from archon_services.cli.options import JsonOption, OrchestratorOption, RegistryOption, WatchOption
from archon_services.cli.render.output import console, is_terminal, print_json, print_table
from archon_services.cli.target.mesh import call_orchestrator, connecting, find_orchestrator, find_registry
from archon_services.cli.watching import repeat

if TYPE_CHECKING:
    from archon.registry import Registration
    from archon.security.credentials import Credentials
    from archon.security.tokens import Audience

_HEADERS: Final = (
    *("role", "instance", "address", "version", "tasks", "state", "heartbeat", "model", "depends on"),
    *("kind", "lease", "expected", "capabilities"),
)
_RIGHT_ALIGNED: Final = frozenset({"tasks", "heartbeat", "lease"})
_FOLDED: Final = frozenset({"model", "depends on", "capabilities"})
_NARROW: Final = ("role", "instance", "address", "tasks", "state", "heartbeat", "model")
"""Columns of a terminal that is narrower than WIDE."""

_ANSWERS: Final = {True: "healthy", False: "silent", None: "-"}

PROBED: Final = 100
"""Instances that are asked whether they serve, and how many tasks are in progress."""

LISTED: Final = 10_000
"""Records that are listed."""

WIDE: Final = 120
"""Characters."""


def agents(
    profiles: Annotated[
        bool, typer.Option("--profiles", help="Print the profile of each role instead of its instances.")
    ] = False,
    metrics: Annotated[
        bool,
        typer.Option(
            "--metrics",
            help="Print the records of roles and instances, by which tasks are placed, from an orchestrator.",
        ),
    ] = False,
    watch: WatchOption = False,
    as_json: JsonOption = False,
    registry: RegistryOption = "",
    orchestrator: OrchestratorOption = "",
) -> None:
    """List the registered instances of all roles: tasks in progress of the most that the instance takes, and the time
    since it has last renewed its registration (heartbeat).

    An instance is `silent` if it does not answer health checks of this machine: its process has died, and its
    registration ends with its lease, or it is reachable only from elsewhere.
    """
    from archon_services.cli.render.profile_text import profile_text

    if metrics:
        mesh = find_orchestrator(orchestrator)
        repeat(lambda: _show_metrics(mesh, as_json=as_json), watch=watch)
        return
    address = find_registry(registry)

    def show() -> None:
        members = asyncio.run(_members(address))
        if as_json:
            print_json([_json(member) for member in members])
        elif not members:
            print("No agents are registered.")
        elif profiles:
            print("\n\n".join(profile_text(instance) for instance in _one_per_role(members)))
        else:
            headers = _NARROW if is_terminal() and console().width < WIDE else _HEADERS
            rows = [_row(member) for member in members]
            print_table(
                headers,
                [[row[header] for header in headers] for row in rows],
                right=[column for column, header in enumerate(headers) if header in _RIGHT_ALIGNED],
                folded=[column for column, header in enumerate(headers) if header in _FOLDED],
            )

    repeat(show, watch=watch)


def _show_metrics(orchestrator: str, *, as_json: bool) -> None:
    from google.protobuf import json_format

    from archon_services.cli.render.instance_metrics import HEADERS, NARROW, metrics_row

    metrics = call_orchestrator(orchestrator, lambda client: client.instance_metrics(limit=LISTED))
    if as_json:
        documents = [
            json_format.MessageToDict(
                each.proto, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
            )
            for each in metrics
        ]
        print_json(documents)
    elif not metrics:
        print("No task has ended yet.")
    else:
        columns = NARROW if is_terminal() and console().width < WIDE else len(HEADERS)
        rows = [metrics_row(each.proto)[:columns] for each in metrics]
        print_table(HEADERS[:columns], rows, right=range(2, columns))


@dataclass(frozen=True, slots=True)
class _Member:
    """An instance as the registry lists it, and its own reply."""

    instance: Registration
    heartbeat_age: float | None
    """Seconds since it has last renewed its lease; None if the registry does not tell."""

    answers: bool | None = None
    """None: it was not asked."""

    running_tasks: int | None = None
    """None: it does not tell."""


async def _members(registry: str) -> list[_Member]:
    from archon.registry import RegistryClient
    from archon.registry.instance_channel import credentials_of_mesh

    with connecting("registry", registry):
        async with RegistryClient(registry) as client:
            leases = await client.list_leases()
    credentials = credentials_of_mesh(registry)
    members = [_Member(instance, max(0.0, instance.ttl - left) if left else None) for instance, left in leases]
    return [
        *await asyncio.gather(*(_asked(member, credentials) for member in members[:PROBED])),
        *members[PROBED:],
    ]


async def _asked(member: _Member, credentials: Mapping[Audience, Credentials]) -> _Member:
    from archon_services.local_mesh.probe import Probe

    if not member.instance.dialled_at:
        return member
    async with Probe.of(member.instance, credentials) as probe:
        answers: bool | None
        if member.instance.address:
            answers, described = await asyncio.gather(probe.serves(), probe.describe())
        else:  # at its address the orchestrator answers health checks
            described = await probe.describe()
            answers = True if described is not None else None
    tells = described is not None and described.HasField("running_tasks")
    return replace(member, answers=answers, running_tasks=described.running_tasks if described and tells else None)


def _one_per_role(members: Sequence[_Member]) -> list[Registration]:
    by_role = {member.instance.role: member.instance for member in members}
    return [by_role[role] for role in sorted(by_role)]


def _json(member: _Member) -> dict[str, Any]:
    return {
        **asdict(member.instance),
        "answers": member.answers,
        "running_tasks": member.running_tasks,
        "heartbeat_age": member.heartbeat_age,
    }


def _row(member: _Member) -> dict[str, str]:
    from archon_services.cli.render.profile_text import expected_text

    instance, running, age = member.instance, member.running_tasks, member.heartbeat_age
    kind = [name for name in ("coordinator", "planner", "stateful") if getattr(instance, name)]
    cells = (
        instance.role,
        instance.instance_id.removeprefix(f"{instance.role}-"),
        instance.address or (f"via {instance.via_orchestrator}" if instance.via_orchestrator else "-"),
        instance.version or "-",
        f"{'-' if running is None else running}/{instance.max_tasks}",
        _ANSWERS[member.answers],
        f"{age:.0f} s ago" if age is not None else "-",
        instance.tags.get("model") or "-",
        ", ".join(dependency.role for dependency in instance.depends_on) or "-",
        ", ".join(kind) or "-",
        f"{instance.ttl:g} s",
        expected_text(instance.profile) or "-",
        ", ".join(capability.id for capability in instance.capabilities) or "-",
    )
    return dict(zip(_HEADERS, cells, strict=True))
