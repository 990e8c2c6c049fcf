"""`archon plan`: the plan of a planner for a goal, and the plans of runs."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperGroup

from archon_services.cli.drawing_format import Format, format_of
from archon_services.cli.errors import NOT_FOUND, UNREACHABLE, USAGE, CliError
from archon_services.cli.options import JsonOption, OrchestratorOption, RunArgument
from archon_services.cli.render.output import print_states, save_text
from archon_services.cli.target.mesh import find_target, orchestrator_client, orchestrator_flag
from archon_services.cli.target.run import find_run_id
from archon_services.cli.text_input import decode_utf8, read_text

if TYPE_CHECKING:
    from archon.api.common.v1.plan_pb2 import Plan
    from archon.api.orchestrator.v1.run_pb2 import Run
    from archon.submission import Goal
    from archon_services.cli.target.mesh import Target

_DEFAULT: Final = "make"


class _WithDefault(TyperGroup):
    """A group that takes an unknown command for a goal: `archon plan GOAL` is `archon plan make GOAL`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in {*self.commands, *ctx.help_option_names}:
            args = [_DEFAULT, *args]
        return super().parse_args(ctx, args)


plan = typer.Typer(cls=_WithDefault, no_args_is_help=True)


@plan.callback()
def _plan() -> None:
    """Print the plan that a planner makes for a GOAL, without executing it; show or edit the plan of a run.

    `archon plan "GOAL"` asks the planner. A goal that is the name of a command follows two dashes: `archon plan --
    show`.
    """


@plan.command(_DEFAULT)
def make(
    goal: Annotated[str, typer.Argument(metavar="GOAL", help="The goal; - reads it from standard input.")] = "",
    file: Annotated[
        Path | None,
        typer.Option("--file", metavar="FILE", help="A text file to attach to the goal, or to use as the goal."),
    ] = None,
    role: Annotated[
        list[str] | None,
        typer.Option(metavar="ROLE", help="A role that steps may go to; by default all with an instance. Repeatable."),
    ] = None,
    planner: Annotated[str, typer.Option(metavar="ROLE", help="The role that plans; by default planner.")] = "",
    timeout: Annotated[
        float, typer.Option(min=0.1, max=3600, metavar="SECONDS", help="How long the planner may take.")
    ] = 60.0,
    as_json: JsonOption = False,
    orchestrator: OrchestratorOption = "",
) -> None:
    """Print the plan for a goal: steps, roles, tools, dependencies, estimates and repairs. Nothing is stored or
    executed."""
    text = read_text(goal, file, "goal", hint='Pass it as an argument, as in: archon plan "..."')
    made = asyncio.run(_make(text, tuple(role or ()), planner, timeout, orchestrator, quiet=as_json))
    if as_json:
        from archon_services.cli.render.output import print_json
        from archon_services.cli.render.plan_document import plan_document

        print_json(plan_document(made))
        return
    _print_lines(made)
    print(f'To execute it: archon run "..." --strategy plan{orchestrator_flag(orchestrator)}')


async def _make(
    goal: Goal, roles: tuple[str, ...], planner: str, timeout: float, orchestrator: str, *, quiet: bool
) -> Plan:
    from archon.errors import DeadlineExceeded, PlanFailed, Unavailable
    from archon_services.cli.target.temporary_mesh import running_or_own_mesh

    async with (
        running_or_own_mesh(orchestrator, quiet=quiet) as (target, signals),
        orchestrator_client(target.orchestrator) as client,
    ):
        try:
            made = client.plan(goal, roles=roles, planner=planner, timeout=timeout)
            return (await signals.guard(made)).proto
        except PlanFailed as error:
            raise CliError(_with_faults(str(error), error)) from error
        except (DeadlineExceeded, Unavailable) as error:
            if "role" in error.metadata:
                hint = "`archon agents` lists the instances, `archon logs planner` their logs."
                raise CliError(str(error), hint=hint, code=UNREACHABLE) from error
            if isinstance(error, DeadlineExceeded):
                raise CliError(f"there is no plan within {timeout:g} s", code=UNREACHABLE) from error
            raise


@plan.command()
def show(
    run: RunArgument,
    form: Annotated[
        Format | None,
        typer.Option("--format", help="By default the format of the suffix of --output, else text."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to this file instead of printing.")
    ] = None,
    orchestrator: OrchestratorOption = "",
) -> None:
    """Show the plan of a run: the states of its steps, and who uses whose results. `archon plan edit` reads the format
    json."""
    form = form or format_of(output)
    found = asyncio.run(_run_of(find_target(orchestrator), run))
    if form is Format.TEXT and output is None:
        _print_lines(found.plan, found)
        return
    text = _rendered(found, form)
    if output is None:
        print(text, end="")
    else:
        save_text(output, text)


@plan.command()
def edit(
    run: RunArgument,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The new plan, in the JSON of `archon plan show --format json`.")
    ],
    orchestrator: OrchestratorOption = "",
) -> None:
    """Replace the steps of a run's plan that have not begun. Steps that have begun must stay as they are.

    If the plan has changed since FILE was written, nothing is changed.
    """
    text, seq = _read(file)
    edited = asyncio.run(_edit(find_target(orchestrator), run, text, seq, file))
    _print_lines(edited.plan, edited)


async def _run_of(target: Target, name: str) -> Run:
    async with orchestrator_client(target.orchestrator) as client:
        run = (await client.get(await find_run_id(client, name))).proto
    if not run.plan.steps:
        raise _no_plan(run)
    return run


def _no_plan(run: Run) -> CliError:
    from archon.api.orchestrator.v1.run_pb2 import STRATEGY_PLAN

    hint = "Runs with the strategy plan have one."
    if run.strategy == STRATEGY_PLAN and not run.HasField("end_time"):
        hint = f"`archon show {run.run_id[:12]}` prints the question." if run.questions else ""
        waits = "it waits for the answer to a question" if run.questions else "the planner is at work"
        return CliError(f"run {run.run_id} has no plan yet: {waits}", hint=hint, code=NOT_FOUND)
    return CliError(f"run {run.run_id} has no plan", hint=hint, code=NOT_FOUND)


async def _edit(target: Target, name: str, text: str, seq: int, file: Path) -> Run:
    from archon.errors import Aborted, FailedPrecondition, InvalidArgument

    run = await _run_of(target, name)
    async with orchestrator_client(target.orchestrator) as client:
        try:
            await client.edit_plan(run.run_id, text, expected_seq=seq or run.plan.change_seq)
            return (await client.get(run.run_id)).proto
        except Aborted as error:
            raise CliError(
                f"the plan of run {run.run_id} has changed since {file} was written: {error}",
                hint=f"`archon plan show {run.run_id[:12]} --format json` prints the present plan.",
            ) from error
        except InvalidArgument as error:
            raise CliError(_with_faults(f"{file} cannot be executed: {error}", error), code=USAGE) from error
        except FailedPrecondition as error:
            raise CliError(f"the plan of run {run.run_id} cannot be edited: {error}") from error


def _read(file: Path) -> tuple[str, int]:
    """Returns the plan in a file, and the event that changed it last; 0 if the file does not say. Raises CliError."""
    try:
        text = decode_utf8(file.read_bytes(), str(file))
    except OSError as error:
        raise CliError(f"cannot read {file}: {error.strerror}", code=USAGE) from error
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return text, 0  # the orchestrator reads it leniently, as the reply of a planner
    seq = document.get("change_seq") if isinstance(document, dict) else None
    return text, seq if isinstance(seq, int) and 0 < seq < 2**63 else 0


def _with_faults(message: str, error: Any) -> str:
    """Adds the further faults that an error names, a line each."""
    faults = [f"{fault.field}: {fault.description}" for fault in error.field_violations]
    lines = [fault for fault in faults if not message.endswith(fault.partition(": ")[2])]
    return "\n".join([message, *(f"  {line}" for line in lines)])


def _rendered(run: Run, form: Format) -> str:
    from archon_services.cli.render.plan_document import plan_document
    from archon_services.cli.render.plan_text import plan_lines

    if form is Format.JSON:
        return json.dumps(plan_document(run.plan), indent=2, ensure_ascii=False) + "\n"
    if form is Format.TEXT:
        return "".join(f"{text}\n" for text, _ in plan_lines(run.plan, run, time.time()))
    from archon_mesh.engine.plan.drawing import to_dot, to_mermaid, to_svg
    from archon_mesh.planning.wire import task_from_proto

    draw = {Format.MERMAID: to_mermaid, Format.DOT: to_dot, Format.SVG: to_svg}[form]
    return draw(task_from_proto(run.plan))


def _print_lines(made: Plan, run: Run | None = None) -> None:
    from archon_services.cli.render.plan_text import plan_lines

    print_states(plan_lines(made, run, time.time()))
