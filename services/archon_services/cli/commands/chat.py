"""`archon chat`: a conversation in the terminal."""

from __future__ import annotations

import asyncio
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from archon_services.cli.errors import FAILED, USAGE, CliError
from archon_services.cli.render.output import harmless, say
from archon_services.cli.target.mesh import OrchestratorOption

if TYPE_CHECKING:
    from archon_services.cli.interrupts import Signals

Tell = Callable[[str], None]
Ask = Callable[[str, Tell], Awaitable[str]]


def chat(
    who: Annotated[str, typer.Argument(metavar="ROLE|FILE", help="A role of the mesh, or a YAML file.")],
    model: Annotated[
        str,
        typer.Option(
            envvar="ARCHON_MODEL", metavar="MODEL", help="offline or openai/NAME, where the file says of none."
        ),
    ] = "offline",
    session: Annotated[
        str,
        typer.Option(metavar="ID", help="The conversation to go on with; those with a file are kept in ARCHON_HOME."),
    ] = "",
    orchestrator: OrchestratorOption = "",
) -> None:
    """Talk to an agent: text appears as it comes, and it remembers what was said.

    An empty line, or Ctrl-D, ends it. Ctrl-C stops an answer; where none is under way it ends the conversation. What is
    piped in is asked line by line.
    """
    raise typer.Exit(asyncio.run(_chat(who, model, session, orchestrator)))


async def _chat(who: str, model: str, session: str, orchestrator: str) -> int:
    from archon_services.cli.interrupts import Signals

    is_file = Path(who).suffix in (".yaml", ".yml")
    opened = _with_file(Path(who), model, session) if is_file else _with_role(who, session, orchestrator)
    async with opened as (name, ask):
        with Signals() as signals:
            return await _talk(name, ask, signals)


async def _talk(name: str, ask: Ask, signals: Signals) -> int:
    """Until there is nothing more to say."""
    from archon.errors import ArchonError

    code = 0
    while (line := await _next_line(signals)) is not None:
        told = _Teller(name)
        asking = asyncio.ensure_future(ask(line, told.tell))
        if await signals.race(asking) is not None:
            asking.cancel()
            await asyncio.wait([asking])
            told.end(" [stopped]")
            continue
        try:
            told.finish(asking.result())
        except ArchonError as error:
            told.end("")
            say(f"error: {error}")
            code = FAILED
    return code


async def _next_line(signals: Signals) -> str | None:
    """None at the end: an empty line, the end of the input, or Ctrl-C."""
    if sys.stdin.isatty():
        sys.stderr.write("you: ")
        sys.stderr.flush()
    loop = asyncio.get_running_loop()
    read: asyncio.Future[str] = loop.create_future()

    def ready() -> None:
        loop.remove_reader(sys.stdin)
        if not read.done():
            read.set_result(sys.stdin.readline())

    try:
        loop.add_reader(sys.stdin, ready)
    except OSError:  # a file: it is always ready
        read.set_result(sys.stdin.readline())
    waiting = asyncio.ensure_future(read)
    try:
        if await signals.race(waiting) is not None:  # type: ignore[arg-type]
            say("")
            return None
    finally:
        loop.remove_reader(sys.stdin) if not waiting.done() else None
    return waiting.result().strip() or None


class _Teller:
    """An answer on standard output, as it comes."""

    def __init__(self, name: str) -> None:
        self._begun = False
        self._name = name

    def tell(self, text: str) -> None:
        """More of it."""
        if not self._begun and sys.stdout.isatty():
            sys.stdout.write(f"{self._name}: ")
        self._begun = True
        sys.stdout.write(harmless(text))
        sys.stdout.flush()

    def finish(self, answer: str) -> None:
        """All of it is there."""
        if not self._begun:
            self.tell(answer)
        self.end("")

    def end(self, remark: str) -> None:
        """No more will come."""
        if self._begun or remark:
            sys.stdout.write(f"{remark}\n")
            sys.stdout.flush()


@asynccontextmanager
async def _with_file(path: Path, model: str, session: str) -> AsyncIterator[tuple[str, Ask]]:
    from archon.errors import InvalidArgument, NotFound
    from archon_mesh.declared import load_agent
    from archon_mesh.memory import SessionManager
    from archon_services.local_mesh.home import Home

    try:
        agent = load_agent(path, model=model).agent
    except (NotFound, InvalidArgument) as error:
        raise CliError(str(error), code=USAGE) from None
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(agent)
        if session:
            home = Home.find()
            home.root.mkdir(parents=True, exist_ok=True)
            agent.session_manager = SessionManager(str(home.root / "sessions.db"))
            agent.session_id = session
            stack.push_async_callback(agent.session_manager.close)

        async def ask(line: str, tell: Tell) -> str:
            def heard(event: Any) -> None:
                if event.agent_name != agent.name:
                    return
                if event.type == "TEXT_MESSAGE_CONTENT":
                    tell(event.delta)
                elif event.type == "TOOL_CALL_START":
                    say(f"[{event.tool_call_name}]")

            return await agent.run_async(line, event_handlers=[heard])

        yield agent.name, ask


@asynccontextmanager
async def _with_role(role: str, session: str, orchestrator: str) -> AsyncIterator[tuple[str, Ask]]:
    """Each line is a run of its own, all of one session. A stateful role remembers it; any other is told what was said
    before."""
    from archon.api.common.v1 import common_pb2
    from archon.client import Client, answer_text
    from archon.status import from_failure
    from archon_services.cli.target.mesh import find_orchestrator, reaching

    target = find_orchestrator(orchestrator)
    said: list[str] = []
    remembers = False
    talk = session or f"chat-{uuid.uuid4().hex}"
    with reaching("orchestrator", target):
        async with Client(target) as client:

            async def ask(line: str, tell: Tell) -> str:
                nonlocal remembers
                told = said and not remembers
                before = "The conversation so far:\n" + "\n".join(said) + "\n\nNow:\n" if told else ""
                handle = await client.submit(before + line, roles=[role], strategy="agent", session_id=talk)
                try:
                    async for event in handle.events():
                        if event.dispatched.role == role:
                            remembers = event.dispatched.HasField("conversation_version")
                        if event.WhichOneof("event") == "text_delta" and event.text_delta.role == role:
                            tell(event.text_delta.text)
                except asyncio.CancelledError:
                    await client.cancel(handle.run_id, "Ctrl-C")
                    raise
                run = await client.get(handle.run_id)
                if run.state != common_pb2.TASK_STATE_COMPLETED:
                    raise from_failure(run.failure)
                answer = answer_text(run)
                said.extend((f"user: {line}", f"{role}: {answer}"))
                return answer

            yield role, ask
