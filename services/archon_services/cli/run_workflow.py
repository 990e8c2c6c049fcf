"""Runs a workflow: in a mesh that has the role that plans for workflows, or gets it first."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from archon_services.cli.follow_run import RunOutcome, RunRequest, submit_and_follow, submit_only

if TYPE_CHECKING:
    from archon_mesh.workflows import Workflow
    from archon_services.cli.interrupts import Signals
    from archon_services.cli.render.run_screen import Screen
    from archon_services.cli.target.mesh import Target

T = TypeVar("T")

SEEN_WITHIN: Final = 15.0
"""Seconds until the orchestrator sees a role that was just started."""

_PAUSE: Final = 0.2


def workflow_request(template: Workflow, arguments: Mapping[str, Any], options: RunRequest) -> RunRequest:
    """Returns the run of a workflow with its arguments; `options` has all but goal, strategy and planner. Raises
    InvalidArgument if workflow and arguments are too large."""
    from archon_mesh.workflows.role import REFERENCE_KEY, ROLE, goal_of

    metadata = {**(options.metadata or {}), REFERENCE_KEY: template.reference}
    return replace(options, goal=goal_of(template, arguments), strategy="plan", planner=ROLE, metadata=metadata)


async def follow_workflow(
    request: RunRequest, template: Workflow, target: Target, signals: Signals, orchestrator: str, screen: Screen
) -> RunOutcome:
    """Submits the run of a workflow and returns when it has ended. Raises as `submit_and_follow` does, and CliError if
    the role that plans for workflows is missing."""
    prepared = await prepared_for(request, template, orchestrator)
    return await _once_seen(lambda: submit_and_follow(target, prepared, screen, signals))


async def submit_workflow(target: Target, request: RunRequest, template: Workflow, orchestrator: str) -> str:
    """Submits the run of a workflow, and returns its id once it is durable. Raises as `follow_workflow` does."""
    prepared = await prepared_for(request, template, orchestrator)
    return await _once_seen(lambda: submit_only(target, prepared))


async def _once_seen(submit: Callable[[], Awaitable[T]]) -> T:
    """Submits until the orchestrator has seen the role that plans for workflows."""
    from archon.errors import UnknownRole
    from archon_mesh.workflows.role import ROLE

    until = time.monotonic() + SEEN_WITHIN
    while True:
        try:
            return await submit()
        except UnknownRole as error:
            if error.metadata.get("role") != ROLE or time.monotonic() >= until:
                raise
            await asyncio.sleep(_PAUSE)


async def prepared_for(request: RunRequest, template: Workflow, orchestrator: str) -> RunRequest:
    """Starts the role if this machine's mesh lacks it, and names the roles if one of the steps may go to the role that
    plans: an approval, or nothing. Raises CliError if the role is missing elsewhere."""
    from archon.registry import RegistryClient
    from archon_mesh.workflows.role import ROLE
    from archon_services.cli.contexts import active_context
    from archon_services.cli.render.output import print_stderr
    from archon_services.cli.target.mesh import connecting, find_registry, running_home
    from archon_services.local_mesh import send_command
    from archon_services.local_mesh.options import WORKFLOW

    is_local = not orchestrator and active_context() is None
    is_needed = _has_approvals(template) or _may_do_nothing(template)
    if not is_local and not is_needed:
        return request
    registry = find_registry("")
    with connecting("registry", registry):
        async with RegistryClient(registry) as client:
            roles = {instance.role for instance in await client.list_instances()}
    if ROLE not in roles and is_local:
        await send_command(running_home(), {"scale": {WORKFLOW: 1}}, print_stderr)
    return replace(request, roles=sorted({*roles, ROLE})) if is_needed else request


def _may_do_nothing(template: Workflow) -> bool:
    """Whether conditions and lists may leave no step: then the role itself ends the run."""
    return all(step.kind in ("if", "for_each", "parallel", "workflow") for step in template.steps)


def _has_approvals(template: Workflow) -> bool:
    from archon_mesh.workflows.load import all_steps

    return any(step.approve for _, step in all_steps((), template.steps)) or any(
        map(_has_approvals, template.calls.values())
    )
