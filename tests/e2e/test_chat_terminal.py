"""`archon chat` in a terminal: a prompt, text as it comes, Ctrl-C in the middle of an answer, and a clean end."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

SLOW = """
import asyncio

async def take_long() -> str:
    "Takes long."
    await asyncio.sleep(60)
    return "never"
"""


class Talk:
    """A person at a terminal."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._master, slave = pty.openpty()
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("ARCHON_")}
        self.process = subprocess.Popen(
            [str(Path(sys.executable).parent / "archon"), "chat", *arguments],
            cwd=folder,
            env={**inherited, "ARCHON_HOME": str(folder / "home")},
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        self.seen = ""

    def until(self, text: str, within: float = 20.0) -> None:
        """Reads until it stands there."""
        end = time.monotonic() + within
        while text not in self.seen:
            assert time.monotonic() < end, f"{text!r} never came:\n{self.seen}"
            if select.select([self._master], [], [], 0.2)[0]:
                self.seen += os.read(self._master, 4096).decode(errors="replace")

    def type(self, text: str) -> None:
        """What is read from here on is what comes after it."""
        self.seen = ""
        os.write(self._master, text.encode())

    def ctrl_c(self) -> None:
        """As the terminal sends it."""
        self.seen = ""
        self.process.send_signal(2)

    def end(self) -> int:
        """Its exit code."""
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


def test_a_conversation_prompts_answers_and_ends_with_an_empty_line(folder: Path) -> None:
    talk = Talk(folder, "quick.yaml")
    talk.until("you: ")
    talk.type("How are you?\n")
    talk.until("quick: ")
    talk.until("Task: How are you?")
    talk.until("you: ")
    talk.type("\n")
    assert talk.end() == 0
    assert "Traceback" not in talk.seen


def test_ctrl_c_stops_an_answer_and_the_conversation_goes_on_and_a_second_one_ends_it(folder: Path) -> None:
    talk = Talk(folder, "slow.yaml")
    talk.until("you: ")
    talk.type("Go\n")
    talk.until("[take_long]")
    talk.ctrl_c()
    talk.until("[stopped]", within=5)
    talk.until("you: ")
    talk.ctrl_c()
    assert talk.end() == 0
    assert "Traceback" not in talk.seen
