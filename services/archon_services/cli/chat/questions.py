"""Questions of an agent to the person who chats with it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from archon_services.cli.ask_terminal import HOW, print_question, read_decision, sealed
from archon_services.cli.chat.lines import Lines
from archon_services.cli.errors import CliError
from archon_services.cli.render.output import print_stderr
from archon_services.reports.texts import strip_controls

if TYPE_CHECKING:
    from archon_services.cli.render.questions import PendingQuestion

Send = Callable[[str, str], Awaitable[None]]
"""Sends an answer and the name of its decision."""


class ChatQuestions:
    """Asks the person one question after the other. The next line of the input is the answer."""

    def __init__(self, lines: Lines, before: Callable[[], None]) -> None:
        """`before` is called before each question."""
        self._lines = lines
        self._before = before
        self._turn = asyncio.Lock()

    async def ask(self, question: PendingQuestion, send: Send) -> bool:
        """Prints the question, and reads the answer until it is accepted. Returns False at the end of the input."""
        from archon.errors import InvalidArgument

        async with self._turn:
            self._before()
            print_question(question)
            prompt = f"{HOW}\n> " if question.is_approval else "> "
            while line := await self._lines.read(prompt, hidden=question.is_secret):
                answer = line.strip()
                if not answer:
                    continue
                try:
                    if question.is_approval:
                        await send(*read_decision(answer))
                    else:
                        await send(sealed(question, answer) if question.is_secret else answer, "")
                    return True
                except (InvalidArgument, CliError) as error:
                    print_stderr(strip_controls(str(error)))
            return False
