"""`archon workflow`: lists, runs, shows and records workflows."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from archon_services.cli.command_span import command_span
from archon_services.cli.commands.run import make_screen, print_outcome
from archon_services.cli.contexts import find_home
from archon_services.cli.errors import USAGE, CliError
from archon_services.cli.options import (
    JsonEventsOption,
    JsonOption,
    MetadataOption,
    OrchestratorOption,
    RunArgument,
    UserOption,
)
from archon_services.cli.render.output import print_json, print_stderr, print_table, save_text
from archon_services.cli.run_metadata import metadata_of
from archon_services.cli.run_options import budget_of
from archon_services.cli.target.mesh import Target, find_target, orchestrator_client, orchestrator_flag
from archon_services.cli.target.run import find_run_id
from archon_services.cli.target.temporary_mesh import running_or_own_mesh
from archon_services.cli.text_input import decode_utf8
from archon_services.local_mesh import MeshOptions
from archon_services.local_mesh.options import WORKFLOW

if TYPE_CHECKING:
    from archon.api.orchestrator.v1.run_pb2 import Run
    from archon_mesh.workflows import Workflow
    from archon_services.cli.follow_run import RunRequest

workflow = typer.Typer(no_args_is_help=True)

_HEADERS: Final = ("workflow", "version", "parameters", "description", "file")

NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="A workflow, as NAME or NAME@VERSION, or its file (.yaml).")
]


class Form(StrEnum):
    """How a workflow is shown."""

    TEXT = "text"
    MERMAID = "mermaid"
    DOT = "dot"


@workflow.callback()
def _group() -> None:
    """Run templates of plans, which are YAML files in ARCHON_WORKFLOWS, by default `workflows` here and in
    ARCHON_HOME."""


@workflow.command("list")
def list_(as_json: JsonOption = False) -> None:
    """List the workflows."""
    folder = _folder()
    found, broken = folder.list()
    if as_json:
        print_json([_entry(each) for each in found])
    elif not found:
        print(f"There is no workflow in {', '.join(map(str, folder.folders))}.")
    else:
        print_table(_HEADERS, [_row(each) for each in found])
    for each in broken:
        print_stderr(f"note: {each.path} is broken: {each.error}")


@workflow.command("run")
def run(
    name: NameArgument,
    parameter: Annotated[
        list[str] | None,
        typer.Option(
            "-p",
            "--parameter",
            metavar="KEY=VALUE",
            help="A parameter; KEY=@FILE reads the value from a file. Lists and objects are JSON. Repeatable.",
        ),
    ] = None,
    session: Annotated[str, typer.Option(metavar="ID", help="The session whose shared memory the run uses.")] = "",
    timeout: Annotated[
        float | None, typer.Option(min=0.001, metavar="SECONDS", help="The time limit of the run; by default 1 h.")
    ] = None,
    budget_tokens: Annotated[int | None, typer.Option(min=1, metavar="N", help="Budget in tokens.")] = None,
    budget_cost: Annotated[float | None, typer.Option(metavar="USD", help="Budget in US dollars.")] = None,
    budget_calls: Annotated[int | None, typer.Option(min=1, metavar="N", help="Budget in calls of models.")] = None,
    request_id: Annotated[
        str, typer.Option(metavar="ID", help="An id of your own: the same id again follows the first run.")
    ] = "",
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Print the run's id and return.")] = False,
    as_json: JsonEventsOption = False,
    user: UserOption = "",
    metadata: MetadataOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the answer only.")] = False,
    orchestrator: OrchestratorOption = "",
) -> None:
    """Run a workflow, and print its progress, its answer and a summary.

    The parameters are checked before anything is submitted. Starts the role `workflow` if the mesh of this machine does
    not run it yet, and a temporary mesh if none is running.
    """
    if (as_json and quiet) or (detach and (as_json or quiet)):
        raise CliError("--json, --quiet and --detach are mutually exclusive", code=USAGE)
    from archon_services.cli.follow_run import RunRequest
    from archon_services.cli.run_workflow import submit_workflow, workflow_request

    template = load_template(name)
    options = RunRequest(
        "",
        session_id=session,
        timeout=timeout,
        budget=budget_of(tokens=budget_tokens, cost=budget_cost, depth=None, calls=budget_calls),
        request_id=request_id,
        metadata=metadata_of(user, metadata or []),
    )
    request = workflow_request(template, arguments_of(template, parameter or []), options)
    if detach:
        print(asyncio.run(submit_workflow(find_target(orchestrator), request, template, orchestrator)))
        return
    raise typer.Exit(asyncio.run(_run(request, template, orchestrator, as_json=as_json, quiet=quiet)))


@workflow.command("show")
def show(
    name: NameArgument,
    form: Annotated[Form, typer.Option("--format", help="How it is shown.")] = Form.TEXT,
) -> None:
    """Show the parameters and the steps of a workflow."""
    from archon_mesh.workflows import drawing

    renderers = {
        Form.TEXT: drawing.to_text,
        Form.MERMAID: drawing.workflow_to_mermaid,
        Form.DOT: drawing.workflow_to_dot,
    }
    print(renderers[form](load_template(name)), end="")


@workflow.command("record")
def record(
    run: RunArgument,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to this file instead of printing.")
    ] = None,
    name: Annotated[str, typer.Option(metavar="NAME", help="The workflow's name; by default the file's.")] = "",
    orchestrator: OrchestratorOption = "",
) -> None:
    """Record a workflow from a run with a plan that has completed.

    Arguments whose values stand in the goal become parameters; results and secrets are not recorded.
    """
    from archon_mesh.workflows.record import record as record_plan

    shown = asyncio.run(_completed(find_target(orchestrator), run))
    recording = record_plan(_plan_of(shown), name or (output.stem if output is not None else "recorded"))
    text = recording.to_yaml(f"Recorded from run {shown.run_id}.")
    if output is None:
        print(text, end="")
    else:
        save_text(output, text)
    for parameter, where in recording.parameters.items():
        print_stderr(f"parameter {parameter}: {where}")


# The folder and the parameters --------------------------------------------------------------------------------------


def _folder() -> Any:
    from archon_mesh.workflows import WorkflowFolder

    return WorkflowFolder.from_environment(find_home().root)


def load_template(name: str) -> Workflow:
    """Returns a workflow by its name or its file. Raises CliError and Archon's errors."""
    from archon_mesh.workflows import load_workflow

    folder = _folder()
    loaded: Workflow = load_workflow(name, folder.find) if _is_file(name) else folder.load(name)
    return loaded


def _is_file(name: str) -> bool:
    return Path(name).suffix in (".yaml", ".yml")


def arguments_of(template: Workflow, given: list[str]) -> dict[str, Any]:
    """Returns the values of the parameters. Raises CliError and InvalidArgument."""
    from archon_mesh.workflows import checked_arguments
    from archon_mesh.workflows.parameters import from_text

    values: dict[str, Any] = {}
    for pair in given:
        key, equals, text = pair.partition("=")
        if not equals or not key:
            raise CliError(f"invalid parameter {pair!r}: expected KEY=VALUE, such as city=Rome", code=USAGE)
        if key in values:
            raise CliError(f"-p has {key} twice", code=USAGE)
        if text.startswith("@"):
            try:
                text = decode_utf8(Path(text[1:]).read_bytes(), text[1:])
            except OSError as error:
                raise CliError(f"cannot read {text[1:]}: {error.strerror or error}", code=USAGE) from error
        parameter = template.parameters.get(key)
        values[key] = text if parameter is None else from_text(parameter, text)
    return checked_arguments(template.reference, template.parameters, values)


def _entry(each: Workflow) -> dict[str, Any]:
    from archon_mesh.workflows import json_schema

    return {
        "name": each.name,
        "version": each.version,
        "description": each.description,
        "parameters": json_schema(each.parameters),
        "file": str(each.source),
    }


def _row(each: Workflow) -> list[str]:
    parameters = [name if parameter.required else f"[{name}]" for name, parameter in each.parameters.items()]
    return [each.name, str(each.version), ", ".join(parameters), each.description, str(each.source)]


# Runs ----------------------------------------------------------------------------------------------------------------


async def _run(request: RunRequest, template: Workflow, orchestrator: str, *, as_json: bool, quiet: bool) -> int:
    from archon_services.cli.run_workflow import follow_workflow

    own = MeshOptions(replicas={WORKFLOW: 1})
    async with running_or_own_mesh(orchestrator, quiet=quiet, options=own) as (target, signals):
        flag = orchestrator_flag(orchestrator)
        screen = make_screen(as_json=as_json, quiet=quiet, flag=flag)
        with command_span("workflow run", target.otlp):
            outcome = await follow_workflow(request, template, target, signals, orchestrator, screen)
    if not as_json:
        print_outcome(outcome, quiet=quiet, flag=flag, traces=target.traces)
    return outcome.code


async def _completed(target: Target, name: str) -> Run:
    """Returns a run with a plan. Raises CliError unless it has completed."""
    from archon.api.common.v1 import common_pb2
    from archon_services.reports.state_names import state_name

    async with orchestrator_client(target.orchestrator) as client:
        found = (await client.get(await find_run_id(client, name))).proto
    if not found.HasField("plan"):
        raise CliError(f"run {found.run_id} has no plan to record", hint="Run a goal with `--strategy plan`.")
    if found.state != common_pb2.TASK_STATE_COMPLETED:
        raise CliError(f"run {found.run_id} has not completed: it is {state_name(found.state)}")
    return found


def _plan_of(found: Run) -> Any:
    from archon.wire import text_of
    from archon_mesh.planning.wire import task_from_proto

    return task_from_proto(found.plan, text_of(found.goal))
