"""`archon respond`: answers what a run asks."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from archon_services.cli.errors import USAGE, CliError
from archon_services.cli.target.mesh import OrchestratorOption, find_orchestrator, reach_of, reaching
from archon_services.cli.target.run import RunArgument, find_run

if TYPE_CHECKING:
    from archon.api.orchestrator.v1.run_pb2 import Run
    from archon.client import Goal
    from archon_services.cli.render.questions import Asked

_HINT = 'Say it, as in: archon respond last "yes"; - reads it from standard input.'


def respond(
    run: RunArgument,
    answer: Annotated[
        str | None,
        typer.Argument(
            metavar="ANSWER",
            help="The answer; - reads it from standard input. Without it the question is shown and the answer read.",
            show_default=False,
        ),
    ] = None,
    question: Annotated[
        str, typer.Option(metavar="ID", help="Which question; needed where the run asks several.")
    ] = "",
    file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A text that belongs to the answer, or is the answer.")
    ] = None,
    request_id: Annotated[
        str, typer.Option(metavar="ID", help="A name for this answer: the same one again is given once.")
    ] = "",
    orchestrator: OrchestratorOption = "",
) -> None:
    """Answer what a run asks; `archon show` tells what that is.

    On a terminal it asks for the answer where none is given.
    """
    from archon_services.cli.options.text import read_given

    given = None
    if answer is not None or file is not None:
        given = read_given(answer or "", file, "answer", hint=_HINT)
    elif not sys.stdin.isatty():
        raise CliError("there is no answer, and no terminal to ask for it", hint=_HINT, code=USAGE)
    address = find_orchestrator(orchestrator)
    found = asyncio.run(_get(address, run))
    asked = _chosen(found, question, request_id)
    input_id = _full_id(found, asked, question)
    if given is not None:
        after = _given(address, found, input_id, given, request_id)
    elif asked is not None:
        after = _in_dialogue(address, asked, request_id)
    elif question:
        raise CliError(f"run {found.run_id} doesn't ask {question!r}", hint=_what_is_asked(found))
    else:
        raise _asks_nothing(found)
    print(_outcome(after, input_id, reach_of(orchestrator)))


async def _get(orchestrator: str, named: str) -> Run:
    from archon.client import Client

    with reaching("orchestrator", orchestrator):
        async with Client(orchestrator) as client:
            return await client.get(await find_run(client, named))


async def _send(orchestrator: str, run_id: str, input_id: str, answer: Goal, request_id: str) -> Run:
    from archon.client import Client

    with reaching("orchestrator", orchestrator):
        async with Client(orchestrator) as client:
            return await client.respond(run_id, input_id, answer, request_id=request_id)


def _given(orchestrator: str, run: Run, input_id: str, answer: Goal, request_id: str) -> Run:
    from archon.errors import FailedPrecondition

    try:
        return asyncio.run(_send(orchestrator, run.run_id, input_id, answer, request_id))
    except FailedPrecondition as error:
        raise error if input_id else _asks_nothing(run) from error


def _open(run: Run) -> list[Asked]:
    from archon_services.cli.render.questions import asked_of

    return [asked_of(run.run_id, one) for one in run.questions]


def _chosen(run: Run, named: str, request_id: str) -> Asked | None:
    """The question that is meant; None where it isn't asked now, which the orchestrator judges: this very answer may
    have come before."""
    asked = _open(run)
    if named:
        return next((one for one in asked if named in (one.input_id, one.short_id)), None)
    if len(asked) > 1:
        raise CliError(
            f"run {run.run_id} asks {len(asked)} questions: --question says which is meant",
            hint=_what_is_asked(run),
            code=USAGE,
        )
    if not asked and not request_id:
        raise _asks_nothing(run)
    return asked[0] if asked else None


def _asks_nothing(run: Run) -> CliError:
    from archon_services.cli.render.run_view import state_name

    return CliError(f"run {run.run_id} asks nothing: its state is {state_name(run.state)}")


def _full_id(run: Run, asked: Asked | None, named: str) -> str:
    if asked is not None:
        return asked.input_id
    return named if not named or named.startswith(f"{run.run_id}.") else f"{run.run_id}.{named}"


def _what_is_asked(run: Run) -> str:
    from archon_services.cli.render.output import harmless

    named = ", ".join(one.named for one in _open(run))
    return harmless(f"It asks {named}.") if named else "It asks nothing."


def _in_dialogue(orchestrator: str, asked: Asked, request_id: str) -> Run:
    """Shows the question and reads the answer, again where it doesn't fit."""
    from archon.errors import InvalidArgument
    from archon_services.cli.options.text import decoded
    from archon_services.cli.render.output import harmless, say

    say(harmless(f"{asked.role} asks:"))
    for text in asked.lines():
        say(harmless(f"  {text}"))
    while True:
        sys.stderr.write("> ")
        sys.stderr.flush()
        line = sys.stdin.buffer.readline()
        if not line:
            say("")
            raise CliError("there is no answer", code=USAGE)
        answer = decoded(line, "the answer").strip()
        if not answer:
            continue
        try:
            return asyncio.run(_send(orchestrator, asked.run_id, asked.input_id, answer, request_id))
        except InvalidArgument as error:
            say(harmless(str(error)))


def _outcome(run: Run, answered: str, reach: str) -> str:
    from archon.client import FINAL_STATES
    from archon_services.cli.render.output import harmless
    from archon_services.cli.render.run_view import state_name

    if run.state in FINAL_STATES:
        return f"Answered; run {run.run_id} has ended: {state_name(run.state)}."
    if any(one.input_id == answered for one in _open(run)):  # another orchestrator owns the run, or it asks again
        return f"The answer was taken; run {run.run_id} hasn't gone on with it yet."
    if others := [one for one in _open(run) if one.input_id != answered]:
        return harmless(f"Answered; run {run.run_id} still asks {', '.join(one.named for one in others)}.")
    if run.paused:
        return f"Answered; run {run.run_id} is paused, and `archon resume {run.run_id[:12]}{reach}` lets it go on."
    return f"Answered; run {run.run_id} goes on."
