"""`archon chat` on a terminal: prompt, streamed answers, Ctrl-C during an answer, and a clean end."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.e2e.terminal import Screen, Terminal
from tests.fixtures.openai_server import Answer, OpenAIServer, chunk

SLOW = """
import asyncio

async def take_long() -> str:
    "Takes long."
    await asyncio.Event().wait()
    return "never"
"""


def chat(
    folder: Path, file: str, *arguments: str, program: bool = False, environment: Mapping[str, str] = {}
) -> Screen:
    terminal = Terminal(folder / "home", **environment, COLUMNS="140", TERM="xterm-256color")
    return Screen(["chat", str(folder / file), *arguments], terminal.environment, program=program)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "slow.py").write_text(SLOW)
    (tmp_path / "slow.yaml").write_text("name: slow\ntools: ['slow:take_long']\n")
    (tmp_path / "quick.yaml").write_text("name: quick\n")
    return tmp_path


def test_chat_answers_and_ends_with_an_empty_line(folder: Path) -> None:
    with chat(folder, "quick.yaml", environment={"CHAT_PATIENCE": "60"}) as screen:
        screen.until("you: ")
        screen.type("How are you?\n")
        screen.until("quick: ")
        screen.until("Task: How are you?")
        screen.until("you: ", times=2)
        screen.type("\n")
        assert screen.end() == 0
        assert "Traceback" not in screen.text
        assert "No answer after" not in screen.text


def test_ctrl_c_stops_the_answer_and_then_ends_the_chat(folder: Path) -> None:
    with chat(folder, "slow.yaml", program=True) as screen:
        screen.until("you: ")
        screen.type("Go\n")
        screen.until("[take_long]")
        screen.interrupt()
        screen.until("[stopped]")
        screen.until("you: ", times=2)
        screen.interrupt()
        assert screen.end() == 0
        assert "Traceback" not in screen.text


@pytest.mark.search
async def test_a_slow_model_is_reported_while_it_is_slow(folder: Path) -> None:
    """The chat's patience is 0.2 s here."""
    async with OpenAIServer() as server:
        server.script(Answer(events=[chunk({"content": "at last"}), chunk(finish="stop")], delay=1.0))
        model = {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "k", "CHAT_PATIENCE": "0.2"}
        with chat(folder, "quick.yaml", "--model", "openai/slow", environment=model) as screen:
            await asyncio.to_thread(screen.until, "you: ")
            screen.type("How are you?\n")
            await asyncio.to_thread(screen.until, "at last")
            assert "No answer after 0.2 s: the model is slow, or a tool is. Ctrl-C stops it." in screen.text
            await asyncio.to_thread(screen.until, "you: ", times=2)
            screen.type("And now?\n")
            await asyncio.to_thread(screen.until, "echo: And now?")
            screen.type("\n")
            assert await asyncio.to_thread(screen.end) == 0


@pytest.mark.search
async def test_a_provider_that_fails_one_call_in_three_fails_no_answer_of_a_chat(folder: Path) -> None:
    """The option --model wins over the model of the file."""
    (folder / "quick.yaml").write_text("name: quick\nmodel: offline\n")
    lines = [f"line {number}" for number in range(30)]
    async with OpenAIServer(unreliable=random.Random(3)) as server:
        terminal = Terminal(folder / "home", OPENAI_BASE_URL=server.url, OPENAI_API_KEY="sk-very-secret")
        command = ("chat", str(folder / "quick.yaml"), "--model", "openai/test-model")
        done = await asyncio.to_thread(lambda: terminal.fork(*command, stdin="\n".join(lines)))
    assert done.code == 0, done.err
    assert [line for line in lines if f"echo: {line}" not in done.out] == []
    assert server.failed >= 8


APPROVING = """
from archon_mesh.tools.people import PersonQuestion, ask_person
from archon_mesh.core.people import QuestionKind


async def order(task: str = "") -> str:
    "Orders paint."
    colour = await ask_person("Which colour?")
    decision = await ask_person(PersonQuestion(f"Order {colour.text} paint?", QuestionKind.APPROVAL))
    return f"{decision.decision.name} {colour.text}: {decision.text}"
"""


def test_chat_with_a_file_asks_the_person_and_passes_on_the_answers(folder: Path) -> None:
    (folder / "order.py").write_text(APPROVING)
    (folder / "order.yaml").write_text("name: buyer\ntools: ['order:order']\n")
    with chat(folder, "order.yaml") as screen:
        screen.until("you: ")
        screen.type("Order paint\n")
        screen.until("buyer asks:")
        screen.until("Which colour?")
        screen.until("> ")
        screen.type("\nblue\n")
        screen.until("Order blue paint?")
        screen.until("a: approve, r REASON: reject, m FILE: modify")
        screen.type("perhaps\nr too dear\n")
        screen.until("answer with a: approve")
        screen.until("REJECT blue: too dear")
        screen.until("you: ", times=2)
        screen.type("\n")
        assert screen.end() == 0


def test_lines_that_come_at_once_are_messages_and_answers_in_their_order(folder: Path) -> None:
    (folder / "order.py").write_text(APPROVING)
    (folder / "order.yaml").write_text("name: buyer\ntools: ['order:order']\n")
    terminal = Terminal(folder / "home")
    done = terminal.fork("chat", str(folder / "order.yaml"), stdin="Order paint\nred\na\nOrder paint\n")
    assert "APPROVE red" in done.out
    assert "the input ended before the question had its answer" in done.out + done.err
