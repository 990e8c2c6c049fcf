"""`archon prompts`: prints the model calls of a run."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from archon_services.cli.errors import USAGE, CliError
from archon_services.cli.options import (
    CallOption,
    JsonOption,
    OrchestratorOption,
    RunOrFileArgument,
    SaveOption,
    TaskOption,
)
from archon_services.cli.render.output import print_stderr
from archon_services.cli.target.mesh import find_orchestrator, orchestrator_client
from archon_services.cli.target.recorded_calls import is_run_file, open_run, read_records
from archon_services.cli.target.run import find_run_id, read_events

if TYPE_CHECKING:
    from archon.api.orchestrator.v1 import run_pb2
    from archon.api.orchestrator.v1.run_pb2 import Run
    from archon.client import Client
    from archon.types import RunEvent, RunRecord
    from archon_mesh.playground import RecordedCall
    from archon_services.cli.render.prompt_output import PromptOutput
    from archon_services.cli.render.prompt_sections import Expected


def prompts(
    run: RunOrFileArgument,
    role: Annotated[str, typer.Option(metavar="ROLE", help="Only the model calls of this role.")] = "",
    task: TaskOption = "",
    call: CallOption = None,
    sent: Annotated[
        bool, typer.Option("--sent", help="Print the request of one call, the bytes that the provider was sent.")
    ] = False,
    curl: Annotated[
        bool,
        typer.Option(
            "--curl",
            help="Print a command for bash that sends the request of one call again, with the key of the environment.",
        ),
    ] = False,
    text: Annotated[bool, typer.Option("--text/--no-text", help="Also print the texts of the messages.")] = True,
    window: Annotated[
        int,
        typer.Option(
            "--window", min=0, metavar="TOKENS", help="The models' context window; by default as it is known."
        ),
    ] = 0,
    as_json: JsonOption = False,
    save: SaveOption = None,
    orchestrator: OrchestratorOption = "",
) -> None:
    """Print the model calls of a run so far, message by message: its origin and its tokens.

    \b
    archon prompts last --role designer --no-text
    archon prompts last --task designer --call 2 --sent --save request.json
    archon prompts run.archon --task designer --curl --save again.sh

    --sent and --curl concern one call: the last one of the task, or the one with the number of --call.
    """
    if sent or curl:
        if sent and curl:
            raise CliError("--sent and --curl go with one call each: name one of them", code=USAGE)
        if as_json:
            raise CliError("--json goes with neither --sent, which is JSON already, nor --curl", code=USAGE)
        _print_request(asyncio.run(read_records(run, orchestrator)).call(task or role, call), save, curl=curl)
        return
    from archon_services.cli.render.prompt_output import JsonOutput, TextOutput

    output = JsonOutput(save) if as_json else TextOutput(save, with_text=text)
    report = _Report(role, task, call, window, output)
    if is_run_file(run):
        report.of_file(Path(run))
    else:
        asyncio.run(report.of_run(find_orchestrator(orchestrator), run))


def _print_request(call: RecordedCall, save: Path | None, *, curl: bool) -> None:
    """Prints the request of a call, or writes it to a file, without another byte."""
    from archon_mesh.playground import curl_command, sent_bytes

    if curl and call.sent.get("has_key"):
        print_stderr(f"The command sends your key to the recorded address: {call.sent.get('url')}")
    content = (curl_command(call) + "\n").encode() if curl else sent_bytes(call)
    if save is None:
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        if not curl and sys.stdout.isatty():
            sys.stdout.write("\n")
        return
    try:
        save.write_bytes(content)
    except OSError as error:
        raise CliError(f"cannot write {save}: {error.strerror}") from error
    print(f"Wrote {save}.")


class _Report:
    """The model calls of a run, each with the analysis of its prompt."""

    def __init__(self, role: str, task: str, call: int | None, window: int, output: PromptOutput) -> None:
        from archon_services.cli.render.prompt_prefix import PrefixAdvice

        self._role = role
        self._task = task
        self._call = call
        self._window = window
        self._output = output
        self._prefixes = PrefixAdvice()
        self._recorded = 0
        self._numbers: dict[str, int] = {}

    async def of_run(self, orchestrator: str, name: str) -> None:
        """Reports the calls of a run of the mesh."""

        async with orchestrator_client(orchestrator) as client:
            run = (await client.get(await find_run_id(client, name))).proto
            expected = await _expected(client, run)
            steps = {task.step_id: task.task_id for task in run.tasks if task.step_id}
            async for record in client.records(run.run_id, role=self._role):
                self._add(record, expected.get((record.task.task_id, record.task.attempt)), steps)
        ended = run.HasField("end_time")
        role = self._role or self._task
        self._end(run.usage.model_calls, role, ended=ended)

    def of_file(self, path: Path) -> None:
        """Reports the calls of the file of a run."""
        for record in open_run(path).records():
            if not self._role or record.role == self._role:
                self._add(record, None, {})
        self._end(0, self._role or self._task, ended=True)

    def _add(self, record: RunRecord, expected: Expected | None, steps: Mapping[str, str]) -> None:
        from archon_mesh.llm.prices import find_window
        from archon_services.cli.render.prompt_sections import read_prompt

        if record.kind != "model":
            return
        task_id = record.task.task_id
        number = self._numbers[task_id] = self._numbers.get(task_id, 0) + 1
        prompt = read_prompt(record.proto, self._window or find_window(record.target), expected)
        self._prefixes.add(record.proto, prompt)
        named = not self._task or self._task == record.role or task_id.startswith(steps.get(self._task, self._task))
        if named and self._call in (None, number):
            self._recorded += 1
            self._output.call(record.proto, prompt, number)

    def _end(self, made: int, role: str, *, ended: bool) -> None:
        from archon_services.cli.render.prompt_report import recorded_text

        note = recorded_text(self._recorded, made, role, ended=ended)
        rest = [] if self._call is not None else list(self._prefixes.rest())
        self._output.end(note, rest)


async def _expected(client: Client, run: Run) -> dict[tuple[str, int], Expected]:
    """Returns the expected content of the prompts of the run's attempts; empty if its events have been deleted."""
    from archon_services.cli.render.prompt_sections import expectations

    dispatched: list[run_pb2.RunEvent] = []

    def keep(event: RunEvent) -> None:
        if event.type == "dispatched":
            dispatched.append(event.proto)

    return expectations(run, dispatched) if await read_events(client, run, keep) else {}
