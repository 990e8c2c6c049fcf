"""Options about the runs that a hook or a schedule submits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from archon_services.cli.errors import NOT_FOUND, USAGE, CliError
from archon_services.cli.run_metadata import metadata_of
from archon_services.cli.run_options import StrategyName, budget_of
from archon_services.cli.target.mesh import call_orchestrator

if TYPE_CHECKING:
    from archon.api.orchestrator.v1.orchestrator_service_pb2 import SubmitRunRequest
    from archon.client import Client
    from archon_services.cli.follow_run import RunRequest

T = TypeVar("T")

WorkflowOption = Annotated[str, typer.Option(metavar="NAME", help="A workflow to run instead of a goal.")]
RoleOption = Annotated[list[str] | None, typer.Option(metavar="ROLE", help="As of `archon run`. Repeatable.")]
StrategyOption = Annotated[StrategyName | None, typer.Option(help="As of `archon run`.")]
TimeoutOption = Annotated[
    float | None, typer.Option(min=0.001, metavar="SECONDS", help="The time limit of each run; by default 1 h.")
]
TokensOption = Annotated[
    int | None, typer.Option("--budget-tokens", min=1, metavar="N", help="Budget of each run in tokens.")
]
CostOption = Annotated[
    float | None, typer.Option("--budget-cost", metavar="USD", help="Budget of each run in US dollars.")
]
EtagOption = Annotated[
    str, typer.Option("--etag", metavar="ETAG", help="Refuse the change if `show --json` has another etag by then.")
]


def call_for(kind: str, orchestrator: str, call: Callable[[Client], Awaitable[T]]) -> T:
    """Calls the orchestrator about a `hook` or a `schedule`. Raises CliError, with a hint if there is none of its name,
    or another one, or it was changed since."""
    from archon.errors import AlreadyExists, HookChanged, ScheduleChanged, UnknownHook, UnknownSchedule

    try:
        return call_orchestrator(orchestrator, call)
    except (UnknownHook, UnknownSchedule) as error:
        raise CliError(error.message, hint=f"`archon {kind} list` lists the {kind}s.", code=NOT_FOUND) from None
    except AlreadyExists as error:
        raise CliError(error.message, hint=f"`archon {kind} edit` changes it.") from None
    except (HookChanged, ScheduleChanged) as error:
        raise CliError(error.message, hint=f"`archon {kind} show --json` has its etag.") from None


def run_request(
    *,
    role: list[str] | None,
    strategy: StrategyName | None = None,
    session: str = "",
    timeout: float | None = None,
    tokens: int | None = None,
    cost: float | None = None,
    user: str = "",
    metadata: list[str] | None = None,
) -> RunRequest:
    """Returns the options of a run whose goal is empty. Raises CliError."""
    from archon_services.cli.follow_run import RunRequest

    budget = budget_of(tokens=tokens, cost=cost, depth=None)
    pairs = metadata_of(user, metadata or [])
    return RunRequest("", tuple(role or ()), session, timeout, str(strategy or ""), budget, metadata=pairs)


def run_changes(
    *, role: list[str] | None, session: str | None, timeout: float | None, tokens: int | None, cost: float | None
) -> dict[str, Any]:
    """Returns the options of a run that are given. A new budget takes the place of the whole one before. Raises
    CliError."""
    budget = budget_of(tokens=tokens, cost=cost, depth=None)
    given = {"roles": role or None, "session_id": session, "timeout": timeout, "budget": budget}
    return {name: value for name, value in given.items() if value is not None}


def check_goal(run: SubmitRunRequest) -> None:
    """Raises CliError if a goal would take the place of a workflow, which its plan would then lack."""
    from archon_mesh.workflows.role import MEDIA_TYPE

    if any(part.media_type == MEDIA_TYPE for part in run.goal):
        raise CliError(
            "it runs a workflow, and has no other goal",
            hint="Give it another workflow (--workflow), or remove it and add another one.",
            code=USAGE,
        )


def workflow_changes(request: RunRequest, before: SubmitRunRequest) -> dict[str, Any]:
    """Returns the options by which the run of a workflow takes the place of `before`, whose other metadata stay."""
    metadata = {**before.metadata, **(request.metadata or {})}
    return {
        "roles": request.roles,
        "strategy": request.strategy,
        "planner": request.planner,
        "plan": request.plan,
        "metadata": metadata,
    }
