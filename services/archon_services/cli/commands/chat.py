"""`archon chat`: an interactive chat with an agent."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from archon.errors import ArchonError
from archon_services.cli.chat import output as chat_output
from archon_services.cli.chat.lines import Lines
from archon_services.cli.chat.questions import ChatQuestions
from archon_services.cli.chat.rating import COMMAND, read_rating
from archon_services.cli.errors import FAILED, USAGE, CliError
from archon_services.cli.identity import calling_as
from archon_services.cli.interrupts import Signals
from archon_services.cli.options import (
    AgentModelOption,
    IdentityOption,
    MetadataOption,
    OrchestratorOption,
    UserOption,
)
from archon_services.cli.render.output import print_stderr
from archon_services.cli.run_metadata import metadata_of

if TYPE_CHECKING:
    from archon_services.cli.chat.file import FileChat
    from archon_services.cli.chat.role import RoleChat


def chat(
    agent: Annotated[str, typer.Argument(metavar="ROLE|FILE", help="A role of the mesh, or a YAML file.")],
    model: AgentModelOption = "",
    session: Annotated[
        str,
        typer.Option(metavar="ID", help="The session to continue; sessions with a file are stored in ARCHON_HOME."),
    ] = "",
    user: UserOption = "",
    metadata: MetadataOption = None,
    identity: IdentityOption = "",
    orchestrator: OrchestratorOption = "",
) -> None:
    """Chat with an agent.

    The agent remembers the session, and its text appears while it is generated. If the agent asks a question, the next
    line is the answer. An empty line or Ctrl-D ends the chat. Ctrl-C stops the current answer, or ends the chat if
    there is none. If standard input is not a terminal, each line of it is a message.

    `/rate up` and `/rate down WHY` rate the run of the last answer: 5 stars or 1, as `archon rate` does.
    """
    with calling_as(identity, orchestrator):
        raise typer.Exit(asyncio.run(_chat(_open(agent, model, session, user, metadata or [], orchestrator))))


def _open(
    agent: str, model: str, session: str, user: str, metadata: list[str], orchestrator: str
) -> AbstractAsyncContextManager[FileChat | RoleChat]:
    if Path(agent).suffix in (".yaml", ".yml"):
        from archon_services.cli.chat.file import open_file

        if metadata:
            raise CliError("--metadata is for runs of the mesh: an agent of a file has none", code=USAGE)
        return open_file(Path(agent), model, session, user)
    from archon_services.cli.chat.role import open_role

    pairs: Mapping[str, str] = metadata_of(user, metadata)
    return open_role(agent, session, pairs, orchestrator)


async def _chat(opening: AbstractAsyncContextManager[FileChat | RoleChat]) -> int:
    async with opening as opened:
        with Signals() as signals:
            return await _loop(opened, signals)


async def _loop(opened: FileChat | RoleChat, signals: Signals) -> int:
    """Answers messages until the end of the input; returns the exit code."""
    code, lines = 0, Lines()
    while (line := await lines.message(signals)) is not None:
        if line.split(maxsplit=1)[0] == COMMAND:
            code = await _rate(opened, line, signals) or code
            continue
        output = chat_output.AnswerOutput(opened.name)
        asking = asyncio.ensure_future(opened.ask(line, output.write, ChatQuestions(lines, output.interrupt)))
        slow = asyncio.get_running_loop().call_later(chat_output.PATIENCE, output.report_wait)
        signum = await signals.race(asking)
        slow.cancel()
        if signum is not None:
            asking.cancel()
            await asyncio.wait([asking])
            output.end(" [stopped]")
            continue
        try:
            output.finish(asking.result())
        except ArchonError as error:
            output.end("")
            print_stderr(f"error: {error}")
            code = FAILED
    return code


async def _rate(opened: FileChat | RoleChat, line: str, signals: Signals) -> int:
    """Rates the last answer; returns the exit code. A rating that fails does not end the chat."""
    try:
        rating = read_rating(line)
        assert rating is not None
        rating_call = asyncio.ensure_future(opened.rate(rating))
        if await signals.race(rating_call) is not None:
            rating_call.cancel()
            await asyncio.wait([rating_call])
            return FAILED
        print_stderr(f"Rated run {rating_call.result()}: {rating.thumb} ({rating.stars} of 5).")
    except CliError as error:
        print_stderr(str(error))
        return error.code
    except ArchonError as error:
        print_stderr(f"error: {error}")
        return FAILED
    return 0
