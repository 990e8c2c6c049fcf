"""A chat with the agent of a YAML file, which runs in this process."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archon_services.cli.chat.questions import ChatQuestions
from archon_services.cli.chat.rating import ChatRating
from archon_services.cli.errors import USAGE, CliError
from archon_services.cli.render.output import print_stderr

if TYPE_CHECKING:
    from archon_mesh.agent import Agent
    from archon_mesh.tools.people import PersonAnswer, PersonQuestion


@asynccontextmanager
async def open_file(path: Path, model: str, session: str, user: str) -> AsyncIterator[FileChat]:
    """Yields the chat with the agent of a file; `session` is stored in ARCHON_HOME. Raises CliError if the file is
    wrong."""
    from archon.errors import InvalidArgument, NotFound
    from archon.private_files import private_folder
    from archon_mesh.declared import ModelOverrides, load_agent
    from archon_mesh.memory import SessionManager
    from archon_services.cli.contexts import find_home

    try:
        agent = load_agent(path, overrides=ModelOverrides(model or None)).agent
    except (NotFound, InvalidArgument) as error:
        raise CliError(str(error), code=USAGE) from None
    agent.user_id = user or agent.user_id
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(agent)
        if session:
            home = find_home()
            private_folder(home.root)
            agent.session_manager = SessionManager(str(home.root / "sessions.db"))
            agent.session_id = session
            stack.push_async_callback(agent.session_manager.close)
        yield FileChat(agent)


class FileChat:
    """Asks the agent in this process."""

    def __init__(self, agent: Agent[Any]) -> None:
        self.name = agent.name
        self._agent = agent

    async def rate(self, rating: ChatRating) -> str:
        """Raises FailedPrecondition: answers of this process belong to no run."""
        from archon.errors import FailedPrecondition

        raise FailedPrecondition(
            f"{self.name} answers in this process: its answers belong to no run that could be rated; "
            "`archon serve` makes it a role of the mesh"
        )

    async def ask(self, line: str, write: Callable[[str], None], questions: ChatQuestions) -> str:
        """Returns the agent's answer. Its text goes to `write` while it is generated. Raises the agent's errors."""
        from archon_mesh.tools.people import answered_by

        agent = self._agent
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

        with answered_by(lambda question: _answer(agent.name, question, questions)):
            answer = await agent.run_async(line, event_handlers=[on_event])
        if failures:
            raise failures[0]
        return str(answer) if agent.output is None else agent.output.to_json(answer)


async def _answer(agent: str, question: PersonQuestion, questions: ChatQuestions) -> PersonAnswer:
    from archon.errors import FailedPrecondition
    from archon_mesh.core.people import QuestionKind, decision_of
    from archon_mesh.tools.people import PersonAnswer
    from archon_services.cli.render.questions import PendingQuestion

    schema = "" if question.schema is None else json.dumps(question.schema, ensure_ascii=False)
    is_approval = question.kind is QuestionKind.APPROVAL
    given: list[PersonAnswer] = []

    async def take(text: str, decision: str) -> None:
        found = decision_of(decision) if decision else None
        given.append(PersonAnswer(text, found) if found else PersonAnswer(text))

    if not await questions.ask(PendingQuestion("", "", agent, question.text, schema, is_approval), take):
        raise FailedPrecondition("the input ended before the question had its answer")
    return given[0]
