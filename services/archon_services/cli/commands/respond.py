"""`archon respond`: answers a question of a run."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from archon_services.cli.ask_terminal import ask_terminal, print_question, sealed
from archon_services.cli.errors import USAGE, CliError
from archon_services.cli.identity import calling_as
from archon_services.cli.options import IdentityOption, OrchestratorOption, RunArgument
from archon_services.cli.target.mesh import find_orchestrator, orchestrator_client, orchestrator_flag
from archon_services.cli.target.run import find_run_id
from archon_services.cli.text_input import read_text
from archon_services.reports.texts import strip_controls

if TYPE_CHECKING:
    from archon.api.orchestrator.v1.run_pb2 import Run
    from archon.submission import Goal
    from archon_services.cli.render.questions import PendingQuestion

_HINT = 'Pass it, as in: archon respond last "yes"; - reads it from standard input.'


def respond(
    run: RunArgument,
    answer: Annotated[
        str | None,
        typer.Argument(
            metavar="ANSWER",
            help="The answer; - reads it from standard input. By default the command prints the question and prompts "
            "for the answer.",
            show_default=False,
        ),
    ] = None,
    question: Annotated[
        str, typer.Option(metavar="ID", help="The question to answer; required if the run asks several.")
    ] = "",
    file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A text file to attach to the answer, or to use as the answer.")
    ] = None,
    request_id: Annotated[
        str, typer.Option(metavar="ID", help="Idempotency key: an answer with the same key is accepted only once.")
    ] = "",
    approve: Annotated[bool, typer.Option("--approve", help="Approve; ANSWER is the reason, if given.")] = False,
    reject: Annotated[bool, typer.Option("--reject", help="Reject; ANSWER is the reason, if given.")] = False,
    modify: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Replace the waiting content by this file: arguments or a plan as JSON, or an answer."
        ),
    ] = None,
    identity: IdentityOption = "",
    orchestrator: OrchestratorOption = "",
) -> None:
    """Answer a question of a run; `archon inbox` lists the questions of all runs."""
    decision = _decision(approve=approve, reject=reject, modify=modify, file=file)
    text: Goal | None = None
    if decision:
        text = read_text(answer or "", modify, "answer", hint=_HINT) if answer or modify else ""
    elif answer is not None or file is not None:
        text = read_text(answer or "", file, "answer", hint=_HINT)
    elif not sys.stdin.isatty():
        raise CliError("missing answer, and standard input is no terminal to prompt for it", hint=_HINT, code=USAGE)
    with calling_as(identity, orchestrator):
        address = find_orchestrator(orchestrator)
        asking_run = asyncio.run(_get(address, run))
        pending = _select(asking_run, question, request_id)
        input_id = _full_id(asking_run, pending, question)
        if text is not None:
            if pending is not None and pending.is_secret and not decision:
                text = sealed(pending, text)
            after = _answer(address, asking_run, input_id, text, request_id, decision)
        elif pending is not None:
            after = _prompt(address, pending, request_id)
        elif question:
            raise CliError(f"run {asking_run.run_id} has no question {question!r}", hint=_list_questions(asking_run))
        else:
            raise _no_questions(asking_run)
        print(_outcome(after, input_id, orchestrator_flag(orchestrator)))


async def _get(orchestrator: str, name: str) -> Run:
    async with orchestrator_client(orchestrator) as client:
        return (await client.get(await find_run_id(client, name))).proto


def _decision(*, approve: bool, reject: bool, modify: Path | None, file: Path | None) -> str:
    """Returns the name of the decision that the options name, empty if they name none."""
    given = [name for name, is_given in (("approve", approve), ("reject", reject), ("modify", modify)) if is_given]
    if len(given) > 1 or (given and file is not None):
        raise CliError("use one of --approve, --reject, --modify and --file", code=USAGE)
    return given[0] if given else ""


async def _send(
    orchestrator: str, run_id: str, input_id: str, answer: Goal, request_id: str, decision: str = ""
) -> Run:
    async with orchestrator_client(orchestrator) as client:
        after = await client.respond(run_id, input_id, answer, decision=decision, request_id=request_id)
        return after.proto


def _answer(orchestrator: str, run: Run, input_id: str, answer: Goal, request_id: str, decision: str) -> Run:
    from archon.errors import FailedPrecondition

    try:
        return asyncio.run(_send(orchestrator, run.run_id, input_id, answer, request_id, decision))
    except FailedPrecondition as error:
        raise error if input_id else _no_questions(run) from error


def _questions(run: Run) -> list[PendingQuestion]:
    from archon_services.cli.render.questions import pending_question

    return [pending_question(run.run_id, question) for question in run.questions]


def _select(run: Run, name: str, request_id: str) -> PendingQuestion | None:
    """Returns the pending question with the id `name`, or the only one if `name` is empty.

    None if it is not pending: the orchestrator decides then, because the request may repeat an accepted answer.
    """
    questions = _questions(run)
    if name:
        return next((question for question in questions if name in (question.input_id, question.short_id)), None)
    if len(questions) > 1:
        raise CliError(
            f"run {run.run_id} asks {len(questions)} questions: choose one with --question",
            hint=_list_questions(run),
            code=USAGE,
        )
    if not questions and not request_id:
        raise _no_questions(run)
    return questions[0] if questions else None


def _no_questions(run: Run) -> CliError:
    from archon_services.reports.state_names import state_name

    return CliError(f"run {run.run_id} asks no question; its state is {state_name(run.state)}")


def _full_id(run: Run, question: PendingQuestion | None, name: str) -> str:
    if question is not None:
        return question.input_id
    return name if not name or name.startswith(f"{run.run_id}.") else f"{run.run_id}.{name}"


def _list_questions(run: Run) -> str:
    summaries = ", ".join(question.summary for question in _questions(run))
    return strip_controls(f"Its questions: {summaries}.") if summaries else "It asks no questions."


def _prompt(orchestrator: str, question: PendingQuestion, request_id: str) -> Run:
    """Prints the question and reads the answer from the terminal."""

    def send(answer: Goal, decision: str) -> Run:
        return asyncio.run(_send(orchestrator, question.run_id, question.input_id, answer, request_id, decision))

    print_question(question)
    after = ask_terminal(question, send)
    if after is None:
        raise CliError("missing answer", code=USAGE)
    return after


def _outcome(run: Run, input_id: str, flag: str) -> str:
    """Describes the run after the answer to `input_id`."""
    from archon.types import TaskState

    if (state := TaskState.from_proto(run.state)).final:
        return f"Answer accepted. Run {run.run_id} has ended: {state}."
    questions = _questions(run)
    if any(question.input_id == input_id for question in questions):  # another replica owns the run, or it asks again
        return f"Answer accepted. Run {run.run_id} has not processed it yet."
    if questions:
        summaries = ", ".join(question.summary for question in questions)
        return strip_controls(f"Answer accepted. Run {run.run_id} still waits for {summaries}.")
    if run.paused:
        return f"Answer accepted. Run {run.run_id} is paused: `archon resume {run.run_id[:12]}{flag}` resumes it."
    return f"Answer accepted. Run {run.run_id} continues."
