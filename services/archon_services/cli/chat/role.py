"""A chat with a role of the mesh: one run for each message, all in one session."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from archon_services.cli.chat.questions import ChatQuestions
from archon_services.cli.chat.rating import ChatRating

if TYPE_CHECKING:
    from archon.client import Client
    from archon.run_view import Question
    from archon_services.cli.render.questions import PendingQuestion


@asynccontextmanager
async def open_role(role: str, session: str, metadata: Mapping[str, str], orchestrator: str) -> AsyncIterator[RoleChat]:
    """Yields the chat with a role. Raises CliError if the orchestrator cannot be reached."""
    from archon_services.cli.target.mesh import find_orchestrator, orchestrator_client

    target = find_orchestrator(orchestrator)
    async with orchestrator_client(target) as client:
        await client.list_runs(limit=1)  # a wrong address is reported before the first line is typed
        yield RoleChat(client, role, session or f"chat-{uuid.uuid4().hex}", metadata)


class RoleChat:
    """A stateful role remembers the session itself; any other one gets the lines and answers so far with each line."""

    def __init__(self, client: Client, name: str, session_id: str, metadata: Mapping[str, str]) -> None:
        self.name = name
        self._client = client
        self._session_id = session_id
        self._metadata = metadata
        self._history: list[str] = []
        self._stateful = False
        self._last_run = ""

    async def rate(self, rating: ChatRating) -> str:
        """Rates the run of the last answer; returns its id. Raises FailedPrecondition if there is none, or if the run
        has not ended, and the errors of the call."""
        from archon.errors import FailedPrecondition

        if not self._last_run:
            raise FailedPrecondition("there is no answer to rate so far")
        await self._client.rate(self._last_run, rating.stars, rating.comment)
        return self._last_run

    async def ask(self, line: str, write: Callable[[str], None], questions: ChatQuestions) -> str:
        """Returns the answer of the role. Its text goes to `write` while it is generated. Raises the failure of the run
        as an ArchonError."""
        from archon.client import answer_text
        from archon.run_view import RunView
        from archon.status import from_failure
        from archon.types import TaskState

        client, role = self._client, self.name
        handle = await client.submit(
            self._preamble() + line,
            roles=[role],
            strategy="agent",
            session_id=self._session_id,
            metadata=self._metadata,
        )
        self._last_run = handle.run_id
        prompts, view, pieces = _Prompts(client, handle.run_id, questions), RunView(), Pieces(write)
        try:
            async for event in handle.events():
                message = event.proto
                if message.dispatched.role == role:
                    self._stateful = message.dispatched.HasField("conversation_version")
                if event.type == "text_delta" and message.text_delta.role == role:
                    pieces.add(message.text_delta.offset, message.text_delta.text)
                view.apply(event)
                prompts.update(view.questions)
        except asyncio.CancelledError:
            await client.cancel(handle.run_id, "Ctrl-C")
            raise
        finally:
            await prompts.close()
        run = await client.get(handle.run_id)
        if run.state is not TaskState.COMPLETED:
            raise from_failure(run.proto.failure)
        answer = answer_text(run)
        pieces.finish(answer)
        self._history.extend((f"user: {line}", f"{role}: {answer}"))
        return answer

    def _preamble(self) -> str:
        if not self._history or self._stateful:
            return ""
        return "The conversation so far:\n" + "\n".join(self._history) + "\n\nNow:\n"


class Pieces:
    """Writes the pieces of an answer while it is generated, up to the first that does not come: a watch that begins
    late or is slow loses some."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._text = ""
        self._end = 0
        self._lost = False

    def add(self, offset: int, text: str) -> None:
        """Takes the next piece, with the bytes of the attempt's text before it; another attempt begins at 0."""
        if not offset:
            self._text, self._end, self._lost = "", 0, False
        self._lost = self._lost or offset != self._end
        if not self._lost:
            self._text, self._end = self._text + text, self._end + len(text.encode())
            self._write(text)

    def finish(self, answer: str) -> None:
        """Writes the rest of an answer if pieces of it were lost; nothing if none of it was written."""
        if self._lost and self._text:
            self._write(answer.removeprefix(self._text) if answer.startswith(self._text) else f"\n{answer}")


class _Prompts:
    """The open questions of a run, each asked by a task of its own."""

    def __init__(self, client: Client, run_id: str, questions: ChatQuestions) -> None:
        self._client = client
        self._run_id = run_id
        self._questions = questions
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def update(self, open_questions: Sequence[Question]) -> None:
        """Asks the open questions of the run; one that has its answer, from wherever it came, is asked no longer."""
        from archon_services.cli.render.questions import pending_question

        for question in open_questions:
            if question.input_id not in self._tasks:
                asking = self._ask(pending_question(self._run_id, question))
                self._tasks[question.input_id] = asyncio.create_task(asking, name=f"ask {question.input_id}")
        for input_id in self._tasks.keys() - {question.input_id for question in open_questions}:
            if not self._tasks[input_id].cancelling():
                self._tasks[input_id].cancel()

    async def _ask(self, question: PendingQuestion) -> None:
        from archon.errors import FailedPrecondition
        from archon_services.cli.render.output import print_stderr

        async def send(answer: str, decision: str) -> None:
            await self._client.respond(self._run_id, question.input_id, answer, decision=decision)

        try:
            if not await self._questions.ask(question, send):
                await self._client.cancel(self._run_id, "the input ended before the question had its answer")
        except FailedPrecondition as error:  # another person's answer came first
            print_stderr(str(error))

    async def close(self) -> None:
        """Stops asking. Raises the error of a task that asked."""
        for task in self._tasks.values():
            task.cancel()
        for result in await asyncio.gather(*self._tasks.values(), return_exceptions=True):
            if isinstance(result, Exception):
                raise result
