"""`archon schedule`: runs that the orchestrator submits at times."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from archon.plain_text import counted
from archon_services.cli.errors import USAGE, CliError
from archon_services.cli.options import JsonOption, MetadataOption, OrchestratorOption, UserOption
from archon_services.cli.render.output import print_json
from archon_services.cli.render.schedule_text import fire_values, print_fires, print_schedule, print_schedules, values
from archon_services.cli.schedule_options import (
    AtOption,
    CatchUpOption,
    CronOption,
    EndOption,
    EveryOption,
    InOption,
    JitterOption,
    MaxRunsOption,
    NoteOption,
    OffsetOption,
    OverlapName,
    OverlapOption,
    PauseOption,
    StartOption,
    WindowOption,
    ZoneOption,
    schedule_options,
)
from archon_services.cli.target.mesh import find_target
from archon_services.cli.text_input import read_goal
from archon_services.cli.trigger_options import (
    CostOption,
    EtagOption,
    RoleOption,
    StrategyOption,
    TimeoutOption,
    TokensOption,
    WorkflowOption,
    call_for,
    check_goal,
    run_changes,
    run_request,
    workflow_changes,
)
from archon_services.cli.when import time_of

if TYPE_CHECKING:
    from archon.client import Client
    from archon.types import Schedule
    from archon_services.cli.follow_run import RunRequest

schedule = typer.Typer(no_args_is_help=True)

SHOWN: Final = 10
"""Fires that `archon schedule show` prints."""

FileOption = Annotated[
    list[Path] | None, typer.Option("--file", metavar="FILE", help="A file to attach to the goal. Repeatable.")
]
ParameterOption = Annotated[
    list[str] | None, typer.Option("-p", "--parameter", metavar="KEY=VALUE", help="A parameter of the workflow.")
]
SessionOption = Annotated[
    str | None, typer.Option("--session", metavar="ID", help="The session whose shared memory the runs use.")
]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The name of a schedule.")]


@schedule.callback()
def _group() -> None:
    """Submit runs at times: by cron in a time zone, at intervals, or once."""


@schedule.command()
def add(
    name: NameArgument,
    goal: Annotated[str, typer.Argument(metavar="[GOAL]", help="The goal; - reads it from standard input.")] = "",
    file: FileOption = None,
    workflow: WorkflowOption = "",
    parameter: ParameterOption = None,
    cron: CronOption = "",
    tz: ZoneOption = "",
    every: EveryOption = "",
    offset: OffsetOption = "",
    at: AtOption = "",
    in_: InOption = "",
    start: StartOption = "",
    end: EndOption = "",
    jitter: JitterOption = "",
    max_runs: MaxRunsOption = None,
    overlap: OverlapOption = None,
    catch_up: CatchUpOption = None,
    catch_up_window: WindowOption = "",
    pause_on_failure: PauseOption = None,
    note: NoteOption = None,
    paused: Annotated[bool, typer.Option("--paused", help="Paused until `archon schedule resume`.")] = False,
    role: RoleOption = None,
    strategy: StrategyOption = None,
    session: SessionOption = None,
    timeout: TimeoutOption = None,
    budget_tokens: TokensOption = None,
    budget_cost: CostOption = None,
    user: UserOption = "",
    metadata: MetadataOption = None,
    as_json: JsonOption = False,
    orchestrator: OrchestratorOption = "",
) -> None:
    """Add a schedule.

    Its runs have the rights that you have at each time.
    """
    options = schedule_options(
        cron=cron, tz=tz, every=every, offset=offset, at=at, in_=in_, start=start, end=end, jitter=jitter,
        max_runs=max_runs, overlap=overlap, catch_up=catch_up, window=catch_up_window,
        pause_on_failure=pause_on_failure, note=note, needed=True,
    )  # fmt: skip
    request = run_request(
        role=role, strategy=strategy, session=session or "", timeout=timeout, tokens=budget_tokens, cost=budget_cost,
        user=user, metadata=metadata,
    )  # fmt: skip
    request = _request(request, goal, file or [], workflow, parameter or [], orchestrator)
    run: Any = request.options()
    added = call_for(
        "schedule",
        orchestrator,
        lambda client: client.schedules.create(name, request.goal, run=run, paused=paused, **options),
    )
    if as_json:
        print_json(values(added))
    else:
        print_schedule(added, [])


def _request(
    options: RunRequest, goal: str, files: list[Path], workflow: str, parameters: list[str], orchestrator: str
) -> RunRequest:
    """Returns the run of a goal or a workflow. Raises CliError."""
    from dataclasses import replace

    if not workflow:
        if parameters:
            raise CliError("-p is a parameter of --workflow", code=USAGE)
        return replace(options, goal=read_goal(goal, files, "goal", hint="Pass it as an argument after the name."))
    if goal or files or options.strategy:
        raise CliError("--workflow excludes a goal, --file and --strategy", code=USAGE)
    from archon_services.cli.commands.workflow import arguments_of, load_template
    from archon_services.cli.run_workflow import prepared_for, workflow_request

    find_target(orchestrator)
    template = load_template(workflow)
    request = workflow_request(template, arguments_of(template, parameters), options)
    return asyncio.run(prepared_for(request, template, orchestrator))


@schedule.command("list")
def list_(as_json: JsonOption = False, orchestrator: OrchestratorOption = "") -> None:
    """List the schedules."""
    schedules = call_for("schedule", orchestrator, lambda client: client.schedules.list())
    if as_json:
        print_json([values(each) for each in schedules])
    else:
        print_schedules(schedules)


@schedule.command()
def show(
    name: NameArgument,
    fires: Annotated[int, typer.Option(min=0, max=1_000, metavar="N", help="The number of fires to show.")] = SHOWN,
    as_json: JsonOption = False,
    orchestrator: OrchestratorOption = "",
) -> None:
    """Show a schedule, its next times and its last fires."""

    async def read(client: Client) -> tuple[Schedule, list[Any]]:
        found = await client.schedules.get(name)
        last: list[Any] = []
        if fires:
            async for fire in client.schedules.fires(name):
                last.append(fire)
                if len(last) >= fires:
                    break
        return found, last

    found, last = call_for("schedule", orchestrator, read)
    if as_json:
        print_json({**values(found), "fires": [fire_values(fire) for fire in last]})
    else:
        print_schedule(found, last)


@schedule.command()
def edit(
    name: NameArgument,
    goal: Annotated[str, typer.Option(metavar="TEXT", help="Another goal.")] = "",
    workflow: WorkflowOption = "",
    parameter: ParameterOption = None,
    cron: CronOption = "",
    tz: ZoneOption = "",
    every: EveryOption = "",
    offset: OffsetOption = "",
    at: AtOption = "",
    in_: InOption = "",
    start: StartOption = "",
    end: EndOption = "",
    jitter: JitterOption = "",
    max_runs: MaxRunsOption = None,
    overlap: OverlapOption = None,
    catch_up: CatchUpOption = None,
    catch_up_window: WindowOption = "",
    pause_on_failure: PauseOption = None,
    note: NoteOption = None,
    role: RoleOption = None,
    session: SessionOption = None,
    timeout: TimeoutOption = None,
    budget_tokens: TokensOption = None,
    budget_cost: CostOption = None,
    etag: EtagOption = "",
    as_json: JsonOption = False,
    orchestrator: OrchestratorOption = "",
) -> None:
    """Change the given options of a schedule.

    Its runs have your rights from then on. Times that have come fire as they were; it goes on with the next one.
    """
    options = schedule_options(
        cron=cron, tz=tz, every=every, offset=offset, at=at, in_=in_, start=start, end=end, jitter=jitter,
        max_runs=max_runs, overlap=overlap, catch_up=catch_up, window=catch_up_window,
        pause_on_failure=pause_on_failure, note=note, needed=False,
    )  # fmt: skip
    run: Any = run_changes(role=role, session=session, timeout=timeout, tokens=budget_tokens, cost=budget_cost)
    planned = None
    if workflow or parameter:
        planned = _request(run_request(role=role), goal, [], workflow, parameter or [], orchestrator)
    if not (options or goal or run or planned):
        raise CliError("nothing to change: give an option", code=USAGE)

    async def change(client: Client) -> Schedule:
        if planned is not None:
            before = await client.schedules.get(name)
            changed: Any = {**run, **workflow_changes(planned, before.proto.run)}
            return await client.schedules.edit(
                name, goal=planned.goal, run=changed, etag=etag or before.etag, **options
            )
        if goal:
            check_goal((await client.schedules.get(name)).proto.run)
        return await client.schedules.edit(name, goal=goal or None, run=run, etag=etag, **options)

    edited = call_for("schedule", orchestrator, change)
    if as_json:
        print_json(values(edited))
    else:
        print_schedule(edited, [])


@schedule.command()
def pause(
    name: NameArgument,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why, for people.")] = "",
    orchestrator: OrchestratorOption = "",
) -> None:
    """Pause a schedule.

    It fires no more; runs in progress continue.
    """
    call_for("schedule", orchestrator, lambda client: client.schedules.pause(name, reason))
    print(f"Paused {name}.")


@schedule.command()
def resume(name: NameArgument, orchestrator: OrchestratorOption = "") -> None:
    """Resume a schedule.

    Times that passed while it was paused are not made up for: `archon schedule backfill` does that.
    """
    resumed = call_for("schedule", orchestrator, lambda client: client.schedules.resume(name))
    print(f"Resumed {name}." + ("" if resumed.next_times else " It has no time to come."))


@schedule.command()
def trigger(
    name: NameArgument,
    overlap: Annotated[OverlapName | None, typer.Option(help="Instead of the policy of the schedule.")] = None,
    as_json: JsonOption = False,
    orchestrator: OrchestratorOption = "",
) -> None:
    """Fire a schedule now, even if it is paused."""
    fire = call_for(
        "schedule",
        orchestrator,
        lambda client: client.schedules.trigger(name, overlap=overlap.value if overlap is not None else ""),
    )
    if as_json:
        print_json(fire_values(fire))
    elif fire.state == "skipped":
        raise CliError(
            f"{name} was not fired: {fire.reason}", hint="--overlap says what else to do, such as allow_all."
        )
    else:
        print(f"Fired {name}: {fire.state}. `archon schedule show {name}` shows its run.")


@schedule.command()
def backfill(
    name: NameArgument,
    start: Annotated[str, typer.Option("--from", metavar="TIME", help="The first time: 2026-01-31T12:00.")],
    end: Annotated[str, typer.Option("--to", metavar="TIME", help="The last time; by default now.")] = "",
    overlap: Annotated[
        OverlapName | None, typer.Option(help="How the runs follow each other; by default one after the other.")
    ] = None,
    as_json: JsonOption = False,
    orchestrator: OrchestratorOption = "",
) -> None:
    """Fire for times that passed and have no run."""
    first, last = time_of(start, "--from"), time_of(end, "--to") if end else None
    policy = overlap.value if overlap is not None else ""
    fires = call_for(
        "schedule", orchestrator, lambda client: client.schedules.backfill(name, first, last, overlap=policy)
    )
    if as_json:
        print_json([fire_values(fire) for fire in fires])
        return
    print(f"Fired {name} for {counted(len(fires), 'time')}." if fires else "Each of the times has a run.")
    print_fires(fires)


@schedule.command()
def remove(name: NameArgument, orchestrator: OrchestratorOption = "") -> None:
    """Remove a schedule and its list of fires.

    Its runs go on.
    """
    call_for("schedule", orchestrator, lambda client: client.schedules.delete(name))
    print(f"Removed {name}.")
