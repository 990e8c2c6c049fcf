"""`archon chat`: an interactive chat with an agent."""

from __future__ import annotations

import asyncio
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from archon_services.cli.errors import FAILED, USAGE, CliError
from archon_services.cli.options import AgentModelOption, OrchestratorOption
from archon_services.cli.render.output import print_stderr, strip_controls

if TYPE_CHECKING:
    from archon.client import Client
    from archon_services.cli.interrupts import Signals

PATIENCE: Final = 5.0
"""Seconds without text of an answer after which a terminal says that it is slow."""

Write = Callable[[str], None]
Ask = Callable[[str, Write], Awaitable[str]]
"""Returns the answer to a line; passes its text to the second argument while it is generated."""


def chat(
    agent: Annotated[str, typer.Argument(metavar="ROLE|FILE", help="A role of the mesh, or a YAML file.")],
    model: AgentModelOption = "",
    session: Annotated[
        str,
        typer.Option(metavar="ID", help="The session to continue; sessions with a file are stored in ARCHON_HOME."),
    ] = "",
    orchestrator: OrchestratorOption = "",
) -> None:
    """Chat with an agent.

    The agent remembers the session, and its text appears while it is generated. An empty line or Ctrl-D ends the chat.
    Ctrl-C stops the current answer, or ends the chat if there is none. If standard input is not a terminal, each line
    of it is a message.
    """
    raise typer.Exit(asyncio.run(_chat(agent, model, session, orchestrator)))


async def _chat(agent: str, model: str, session: str, orchestrator: str) -> int:
    from archon_services.cli.interrupts import Signals

    is_file = Path(agent).suffix in (".yaml", ".yml")
    opened = _open_file(Path(agent), model, session) if is_file else _open_role(agent, session, orchestrator)
    async with opened as (name, ask):
        with Signals() as signals:
            return await _loop(name, ask, signals)


async def _loop(name: str, ask: Ask, signals: Signals) -> int:
    """Answers lines until the end of the input; returns the exit code."""
    from archon.errors import ArchonError

    code = 0
    while (line := await _next_line(signals)) is not None:
        output = _AnswerOutput(name)
        asking = asyncio.ensure_future(ask(line, output.write))
        slow = asyncio.get_running_loop().call_later(PATIENCE, output.report_wait)
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


async def _next_line(signals: Signals) -> str | None:
    """Reads a line; None after an empty line, the end of the input, or Ctrl-C."""
    if sys.stdin.isatty():
        sys.stderr.write("you: ")
        sys.stderr.flush()
    loop = asyncio.get_running_loop()
    line: asyncio.Future[str] = loop.create_future()

    def read() -> None:
        loop.remove_reader(sys.stdin)
        if not line.done():
            line.set_result(sys.stdin.readline())

    try:
        loop.add_reader(sys.stdin, read)
    except OSError:  # a regular file, which is always readable
        line.set_result(sys.stdin.readline())
    try:
        if await signals.race(line) is not None:
            print_stderr("")
            return None
    finally:
        if not line.done():
            loop.remove_reader(sys.stdin)
    return line.result().strip() or None


class _AnswerOutput:
    """Writes an answer to standard output while it is generated."""

    def __init__(self, name: str) -> None:
        self._begun = False
        self._name = name

    def write(self, text: str) -> None:
        """Writes the next piece of the answer."""
        if not self._begun and sys.stdout.isatty():
            sys.stdout.write(f"{self._name}: ")
        self._begun = True
        sys.stdout.write(strip_controls(text))
        sys.stdout.flush()

    def report_wait(self) -> None:
        """Says on a terminal that there is no answer yet, unless there is."""
        if not self._begun and sys.stderr.isatty():
            print_stderr(f"No answer after {PATIENCE:g} s: the model is slow, or a tool is. Ctrl-C stops it.")

    def finish(self, answer: str) -> None:
        """Writes the whole answer if no piece of it was written before."""
        if not self._begun:
            self.write(answer)
        self.end("")

    def end(self, remark: str) -> None:
        """Ends the line, if there is one."""
        if self._begun or remark:
            sys.stdout.write(f"{remark}\n")
            sys.stdout.flush()


@asynccontextmanager
async def _open_file(path: Path, model: str, session: str) -> AsyncIterator[tuple[str, Ask]]:
    """Yields the agent of a YAML file, which runs in this process."""
    from archon.errors import InvalidArgument, NotFound
    from archon.private_files import private_folder
    from archon_mesh.declared import ModelOverrides, load_agent
    from archon_mesh.memory import SessionManager
    from archon_services.cli.contexts import find_home

    try:
        agent = load_agent(path, overrides=ModelOverrides(model or None)).agent
    except (NotFound, InvalidArgument) as error:
        raise CliError(str(error), code=USAGE) from None
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(agent)
        if session:
            home = find_home()
            private_folder(home.root)
            agent.session_manager = SessionManager(str(home.root / "sessions.db"))
            agent.session_id = session
            stack.push_async_callback(agent.session_manager.close)

        async def ask(line: str, write: Write) -> str:
            failures: list[OSError] = []

            def on_event(event: Any) -> None:
                if event.agent_name != agent.name or failures:
                    return
                if event.type == "TEXT_MESSAGE_CONTENT":
                    try:
                        write(event.delta)
                    except OSError as error:  # of a handler it would only be logged, with each event
                        failures.append(error)
                elif event.type == "TOOL_CALL_START":
                    print_stderr(f"[{event.tool_call_name}]")

            answer = await agent.run_async(line, event_handlers=[on_event])
            if failures:
                raise failures[0]
            return str(answer) if agent.output is None else agent.output.to_json(answer)

        yield agent.name, ask


@asynccontextmanager
async def _open_role(role: str, session: str, orchestrator: str) -> AsyncIterator[tuple[str, Ask]]:
    """Yields a role of the mesh."""
    from archon.client import Client
    from archon_services.cli.target.mesh import connecting, find_orchestrator

    target = find_orchestrator(orchestrator)
    with connecting("orchestrator", target):
        async with Client(target) as client:
            await client.list_runs(limit=1)  # a wrong address is reported before the first line is typed
            yield role, _RoleChat(client, role, session or f"chat-{uuid.uuid4().hex}").ask


class _RoleChat:
    """A chat with a role: one run per line, all in one session.

    A stateful role remembers the session itself; any other role gets the previous lines and answers with each line.
    """

    def __init__(self, client: Client, role: str, session_id: str) -> None:
        self._client = client
        self._role = role
        self._session_id = session_id
        self._history: list[str] = []
        self._stateful = False

    async def ask(self, line: str, write: Write) -> str:
        """Returns the answer of the role. Raises the failure of the run as an ArchonError."""
        from archon.api.common.v1 import common_pb2
        from archon.client import answer_text
        from archon.status import from_failure

        client, role = self._client, self._role
        handle = await client.submit(
            self._preamble() + line, roles=[role], strategy="agent", session_id=self._session_id
        )
        try:
            async for event in handle.events():
                if event.dispatched.role == role:
                    self._stateful = event.dispatched.HasField("conversation_version")
                if event.WhichOneof("event") == "text_delta" and event.text_delta.role == role:
                    write(event.text_delta.text)
        except asyncio.CancelledError:
            await client.cancel(handle.run_id, "Ctrl-C")
            raise
        run = await client.get(handle.run_id)
        if run.state != common_pb2.TASK_STATE_COMPLETED:
            raise from_failure(run.failure)
        answer = answer_text(run)
        self._history.extend((f"user: {line}", f"{role}: {answer}"))
        return answer

    def _preamble(self) -> str:
        if not self._history or self._stateful:
            return ""
        return "The conversation so far:\n" + "\n".join(self._history) + "\n\nNow:\n"
