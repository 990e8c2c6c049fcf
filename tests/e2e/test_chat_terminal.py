"""`archon chat` on a terminal: prompt, streamed answers, Ctrl-C during an answer, and a clean end."""

from __future__ import annotations

import asyncio
import os
import pty
import random
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.fixtures.openai_server import Answer, OpenAIServer, chunk

SLOW = """
import asyncio

async def take_long() -> str:
    "Takes long."
    await asyncio.sleep(60)
    return "never"
"""


class ChatTerminal:
    """`archon chat` on a pseudo-terminal."""

    def __init__(self, folder: Path, *arguments: str, **environment: str) -> None:
        self._master, slave = pty.openpty()
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("ARCHON_")}
        self.process = subprocess.Popen(
            [str(Path(sys.executable).parent / "archon"), "chat", *arguments],
            cwd=folder,
            env={**inherited, "ARCHON_HOME": str(folder / "home"), **environment},
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        self.seen = ""

    def until(self, text: str, within: float = 20.0) -> None:
        """Reads the output until it contains `text`."""
        end = time.monotonic() + within
        while text not in self.seen:
            assert time.monotonic() < end, f"no {text!r} in the output:\n{self.seen}"
            if select.select([self._master], [], [], 0.2)[0]:
                self.seen += os.read(self._master, 4096).decode(errors="replace")

    def type(self, text: str) -> None:
        """Types `text` and clears the output that was read before."""
        self.seen = ""
        os.write(self._master, text.encode())

    def ctrl_c(self) -> None:
        """Sends SIGINT, as the terminal does, and clears the output that was read before."""
        self.seen = ""
        self.process.send_signal(2)

    def end(self) -> int:
        """Waits for the end and returns the exit code."""
        try:
            return self.process.wait(20)
        finally:
            os.close(self._master)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "slow.py").write_text(SLOW)
    (tmp_path / "slow.yaml").write_text("name: slow\ntools: ['slow:take_long']\n")
    (tmp_path / "quick.yaml").write_text("name: quick\n")
    return tmp_path


def test_chat_answers_and_ends_with_an_empty_line(folder: Path) -> None:
    chat = ChatTerminal(folder, "quick.yaml")
    chat.until("you: ")
    chat.type("How are you?\n")
    chat.until("quick: ")
    chat.until("Task: How are you?")
    chat.until("you: ")
    chat.type("\n")
    assert chat.end() == 0
    assert "Traceback" not in chat.seen


def test_ctrl_c_stops_the_answer_and_then_ends_the_chat(folder: Path) -> None:
    chat = ChatTerminal(folder, "slow.yaml")
    chat.until("you: ")
    chat.type("Go\n")
    chat.until("[take_long]")
    chat.ctrl_c()
    chat.until("[stopped]", within=5)
    chat.until("you: ")
    chat.ctrl_c()
    assert chat.end() == 0
    assert "Traceback" not in chat.seen


async def test_a_slow_model_is_reported_while_it_is_slow(folder: Path) -> None:
    async with OpenAIServer() as server:
        server.script(Answer(events=[chunk({"content": "at last"}), chunk(finish="stop")], delay=6.0))
        model = {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "k"}
        chat = ChatTerminal(folder, "quick.yaml", "--model", "openai/slow", **model)
        await asyncio.to_thread(chat.until, "you: ")
        chat.type("How are you?\n")
        await asyncio.to_thread(chat.until, "at last")
        assert "No answer after 5 s: the model is slow, or a tool is. Ctrl-C stops it." in chat.seen
        await asyncio.to_thread(chat.until, "you: ")
        chat.type("And now?\n")
        await asyncio.to_thread(chat.until, "echo: And now?")
        assert "slow" not in chat.seen
        chat.type("\n")
        assert await asyncio.to_thread(chat.end) == 0


async def test_a_provider_that_fails_one_call_in_three_fails_no_answer_of_a_chat(folder: Path) -> None:
    """The option --model wins over the model of the file."""
    (folder / "quick.yaml").write_text("name: quick\nmodel: offline\n")
    lines = [f"line {number}" for number in range(30)]
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("ARCHON_")}
    async with OpenAIServer(unreliable=random.Random(3)) as server:
        model = {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "sk-very-secret"}
        chat = await asyncio.create_subprocess_exec(
            *(str(Path(sys.executable).parent / "archon"), "chat", "quick.yaml", "--model", "openai/test-model"),
            cwd=folder,
            env={**inherited, **model, "ARCHON_HOME": str(folder / "home")},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(120):
            out, err = await chat.communicate("\n".join(lines).encode())
    assert chat.returncode == 0, err.decode()
    assert [line for line in lines if f"echo: {line}" not in out.decode()] == []
    assert server.failed >= 8
