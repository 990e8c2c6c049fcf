"""`archon run`: submits a goal and follows its run to the answer."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from archon_services.cli.breakpoint_option import read_breakpoints
from archon_services.cli.command_span import command_span
from archon_services.cli.errors import USAGE, CliError
from archon_services.cli.options import BreakOption, JsonEventsOption, MetadataOption, OrchestratorOption, UserOption
from archon_services.cli.pattern import plan_of
from archon_services.cli.render.output import is_terminal, print_stderr
from archon_services.cli.run_metadata import metadata_of
from archon_services.cli.run_options import StrategyName, budget_of
from archon_services.cli.target.mesh import find_target, orchestrator_flag
from archon_services.cli.target.temporary_mesh import running_or_own_mesh
from archon_services.cli.text_input import read_goal
from archon_services.cli.when import later

if TYPE_CHECKING:
    from archon_services.cli.follow_run import RunOutcome, RunRequest
    from archon_services.cli.render.run_screen import Screen
    from archon_services.cli.target.mesh import Target

MAX_TOKENS: Final = 10**12
MAX_DEPTH: Final = 32
MAX_CALLS: Final = 10**9


def run(
    goal: Annotated[str, typer.Argument(metavar="GOAL", help="The goal; - reads it from standard input.")] = "",
    file: Annotated[
        list[Path] | None,
        typer.Option(
            "--file",
            metavar="FILE",
            help="A text, image, audio or other file to attach to the goal, or to use as the goal. Repeatable.",
        ),
    ] = None,
    role: Annotated[
        list[str] | None,
        typer.Option(metavar="ROLE", help="A role that takes part; by default all of the pipeline. Repeatable."),
    ] = None,
    strategy: Annotated[
        StrategyName | None,
        typer.Option(
            help="pipeline: all roles in the order of their dependencies. agent: one role, by default the coordinator, "
            "which may delegate to others. plan: a planner makes a plan, whose steps go to the roles. By default agent "
            "if there is exactly one --role, else pipeline.",
        ),
    ] = None,
    planner: Annotated[
        str, typer.Option(metavar="ROLE", help="The role that plans, with --strategy plan; by default planner.")
    ] = "",
    pattern: Annotated[
        str,
        typer.Option(
            metavar="NAME:N",
            help="Have several agents work at once, without a planner. committee:3: members vote, and each --role has "
            "its turn among them. settled: each --role answers, and conflicts are settled. auction:3: each --role "
            "bids, the best one does it. debate:2: two answer, and reply to each other. swarm:3: members take the "
            "items of one list. redundant:2: the first result counts. hedged:10: a second attempt after 10 s; "
            "hedged:p95: after the role's measured time.",
        ),
    ] = "",
    arbiter: Annotated[
        str,
        typer.Option(
            metavar="ROLE", help="The role that decides a debate, or what a committee or settled leaves open."
        ),
    ] = "",
    item: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEXT", help="An item of a swarm; without one, the first --role lists the items. Repeatable."
        ),
    ] = None,
    gather: Annotated[
        str, typer.Option(metavar="ROLE", help="The role that makes one answer of the results of a swarm.")
    ] = "",
    check_alignment: Annotated[
        bool,
        typer.Option(
            "--check-alignment",
            help="Ask the planner, while its plan is executed, whether the plan still leads to the goal, and replace "
            "one that does not; with --strategy plan.",
        ),
    ] = False,
    session: Annotated[str, typer.Option(metavar="ID", help="The session whose shared memory the run uses.")] = "",
    timeout: Annotated[
        float | None, typer.Option(min=0.001, metavar="SECONDS", help="The time limit of the run; by default 1 h.")
    ] = None,
    budget_tokens: Annotated[
        int | None, typer.Option(min=1, max=MAX_TOKENS, metavar="N", help="Budget in tokens, input and output.")
    ] = None,
    budget_cost: Annotated[
        float | None, typer.Option(metavar="USD", help="Budget in US dollars, such as 0.25.")
    ] = None,
    budget_calls: Annotated[
        int | None, typer.Option(min=1, max=MAX_CALLS, metavar="N", help="Budget in calls of models, of all agents.")
    ] = None,
    budget_depth: Annotated[
        int | None, typer.Option(min=1, max=MAX_DEPTH, metavar="N", help="Maximum depth of nested delegations.")
    ] = None,
    request_id: Annotated[
        str,
        typer.Option(
            metavar="ID", help="An id of your own: the same id again submits nothing and follows the first run."
        ),
    ] = "",
    user: UserOption = "",
    metadata: MetadataOption = None,
    break_before: BreakOption = None,
    at: Annotated[
        str, typer.Option(metavar="TIME", help="Submit it at this time, such as 2026-01-31T12:00; `archon schedule`.")
    ] = "",
    in_: Annotated[
        str, typer.Option("--in", metavar="TIME", help="Submit it after this time: 90s, 30m, 2h or 7d.")
    ] = "",
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Print the run's id and return; `archon watch` follows it.")
    ] = False,
    as_json: JsonEventsOption = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the answer only.")] = False,
    orchestrator: OrchestratorOption = "",
) -> None:
    """Run a goal and print its progress, its answer and a summary.

    Uses the mesh in ARCHON_HOME; if none is running, starts a temporary one. Ctrl-C cancels the run, a second Ctrl-C
    detaches from it.
    """
    if as_json and quiet:
        raise CliError("--json and --quiet are mutually exclusive", code=USAGE)
    if detach and (as_json or quiet):
        raise CliError("--detach prints the run's id only: it excludes --json and --quiet", code=USAGE)
    if (time := later(at, in_)) is not None and (as_json or quiet or request_id or break_before):
        raise CliError("--at and --in exclude --json, --quiet, --request-id and --break-before", code=USAGE)
    roles = role or []
    if strategy is StrategyName.AGENT and len(roles) > 1:
        raise CliError(
            f"--strategy agent takes one --role, not {len(roles)}",
            hint="Omit --role for the coordinator, or use --strategy pipeline.",
            code=USAGE,
        )
    if planner and strategy is not StrategyName.PLAN:
        raise CliError("--planner needs --strategy plan", code=USAGE)
    if check_alignment and strategy is not StrategyName.PLAN:
        raise CliError("--check-alignment needs --strategy plan", code=USAGE)
    if pattern and (planner or check_alignment or file or strategy not in (None, StrategyName.PLAN)):
        raise CliError("--pattern excludes --planner, --check-alignment, --file and other strategies", code=USAGE)
    if arbiter and not pattern:
        raise CliError("--arbiter needs --pattern committee, settled or debate", code=USAGE)
    if (item or gather) and not pattern:
        raise CliError(f"--{'item' if item else 'gather'} needs --pattern swarm", code=USAGE)
    from archon_services.cli.follow_run import RunRequest, submit_only

    given = read_goal(goal, file or [], "goal", hint='Pass it as an argument, as in: archon run "..."')
    plan = ""
    if pattern and isinstance(given, str):
        plan = plan_of(pattern, given, roles, arbiter, items=item or (), gather=gather)
    request = RunRequest(
        given,
        tuple(dict.fromkeys([*roles, *filter(None, (arbiter, gather))])),
        session,
        timeout,
        "plan" if pattern else str(strategy or ""),
        budget_of(tokens=budget_tokens, cost=budget_cost, depth=budget_depth, calls=budget_calls),
        request_id,
        planner,
        metadata_of(user, metadata or []),
        check_alignment,
        plan,
        read_breakpoints(break_before),
    )
    if time is not None:
        asyncio.run(_submit_later(find_target(orchestrator), request, time))
        return
    if detach:
        print(asyncio.run(submit_only(find_target(orchestrator), request)))
        return
    raise typer.Exit(asyncio.run(_run(request, orchestrator, as_json=as_json, quiet=quiet)))


async def _submit_later(target: Target, request: RunRequest, time: float) -> None:
    """Adds a schedule with one time."""
    from datetime import datetime

    from archon_services.cli.target.mesh import orchestrator_client
    from archon_services.reports.texts import local_time

    name = f"run-{datetime.fromtimestamp(time):%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:6]}"
    run: Any = request.options()
    async with orchestrator_client(target.orchestrator) as client:
        await client.schedules.create(name, request.goal, run=run, at=time)
    print(f"{name}: at {local_time(time)}. `archon schedule show {name}` shows its run, `remove` cancels it.")


async def _run(request: RunRequest, orchestrator: str, *, as_json: bool, quiet: bool) -> int:
    from archon_services.cli.follow_run import submit_and_follow

    async with running_or_own_mesh(orchestrator, quiet=quiet) as (target, signals):
        flag = orchestrator_flag(orchestrator)
        screen = make_screen(as_json=as_json, quiet=quiet, flag=flag)
        with command_span("run", target.otlp):
            outcome = await submit_and_follow(target, request, screen, signals)
    if not as_json:
        print_outcome(outcome, quiet=quiet, flag=flag, traces=target.traces)
    return outcome.code


def make_screen(*, as_json: bool = False, quiet: bool = False, flag: str = "") -> Screen:
    """Returns the view for these options; `flag` is the option that suggested commands need to reach the mesh."""
    from archon_services.cli.render.run_screen import JsonScreen, LineScreen, QuietScreen, TreeScreen

    if as_json:
        return JsonScreen()
    if quiet:
        return QuietScreen(flag)
    return TreeScreen(flag) if is_terminal() else LineScreen(flag=flag)


def print_outcome(outcome: RunOutcome, *, quiet: bool = False, flag: str = "", traces: str = "") -> None:
    """Prints the answer and a summary; if `quiet`, the answer and a failure only. `flag` as in `make_screen`; `traces`
    is the address of Jaeger, if there is one."""
    from archon_services.cli.render.rerun import rerun_hint
    from archon_services.cli.render.run_summary import print_answer, print_summary
    from archon_services.reports.state_names import state_name

    print_answer(outcome.run)
    if not quiet:
        print_summary(outcome.run, outcome.versions, flag)
        if traces and outcome.run.trace_id:
            print(f"Trace: http://{traces}/trace/{outcome.run.trace_id}")
    elif outcome.code:
        failure = f": {outcome.run.failure.message}" if outcome.run.failure.message else ""
        print_stderr(f"error: run {outcome.run.run_id} {state_name(outcome.run.state)}{failure}")
        if hint := rerun_hint(outcome.run, flag):
            print_stderr(f"hint: {hint}")
