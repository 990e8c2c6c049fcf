"""The reference roles as processes, with the offline model and over HTTP, on texts of users."""

from __future__ import annotations

import asyncio
import json
import random
import string
from collections.abc import AsyncIterator

import pytest

from archon.client import answer_text
from archon.types import Run, TaskState
from tests.fixtures.mesh import Mesh
from tests.fixtures.openai_server import Answer, OpenAIServer, chunk
from tests.fixtures.services import ServiceProcess

PROSE = [
    "The {0} has grown over the years for reasons lost to time.",
    "On Tuesdays the {0} is closed, which is fine.",
    "People talk about the {0} with some affection.",
]
DEMANDS = [
    "The system must store every {0} for seven years.",
    "Clerks need to find a {0} within two seconds.",
    "A reader should be told when a {0} is overdue.",
    "It shall never lose a {0}, whatever happens.",
    "Every {0} has to carry a number that is unique.",
]


def brief(seed: int, demands: int = 20) -> tuple[str, list[str]]:
    """Returns a text with random marker words, and the demands in it."""
    dice = random.Random(seed)

    def word() -> str:
        return "".join(dice.choices(string.ascii_lowercase, k=10))

    demanded = [dice.choice(DEMANDS).format(word()) for _ in range(demands)]
    filler = [dice.choice(PROSE).format(word()) for _ in range(demands)]
    sentences = demanded + filler
    dice.shuffle(sentences)
    paragraphs = [" ".join(sentences[n : n + 5]) for n in range(0, len(sentences), 5)]
    return "\n\n".join(paragraphs), demanded


async def role(mesh: Mesh, name: str, **environment: str) -> None:
    """Starts a reference role as a process."""
    process = ServiceProcess(
        "archon_services.agents", mesh.home, name, ARCHON_REGISTRY=mesh.registry.address, **environment
    )
    await mesh.join_process(process)


@pytest.fixture(scope="module")
async def mesh(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Mesh]:
    """Shared by this module: with the three roles as they are by default."""
    mesh = Mesh(tmp_path_factory.mktemp("mesh"))
    await mesh.start()
    for name in ("requirements", "designer", "implementer"):
        await role(mesh, name)
    yield mesh
    await mesh.stop()


async def prompts(mesh: Mesh, run: Run, name: str) -> list[dict[str, str]]:
    """Returns the messages in the only model call of a role."""
    (record,) = [record async for record in mesh.client.records(run.run_id, role=name)]
    messages: list[dict[str, str]] = json.loads(record.request_json)["messages"]
    return messages


@pytest.mark.parametrize("seed", [1, 2])
async def test_nine_of_ten_demands_of_a_random_brief_come_out_verbatim(mesh: Mesh, seed: int) -> None:
    text, demanded = brief(seed)
    run = (await mesh.client.submit(text, wait=30)).run
    assert run.state == TaskState.COMPLETED
    records = {record.role: record async for record in mesh.client.records(run.run_id)}
    requirements = json.loads(records["requirements"].response_json)["text"]
    numbered = [sentence for sentence in demanded if f". {sentence}\n" in f"{requirements}\n"]
    assert len(numbered) >= 0.9 * len(demanded)
    first = next(line for line in requirements.splitlines() if line.startswith("R1. "))
    assert f"From requirements: {first}" in answer_text(run)


async def test_a_model_receives_prompt_then_upstream_answers_then_goal(mesh: Mesh) -> None:
    run = (await mesh.client.submit("Clerks must see overdue books.", wait=30)).run
    messages = await prompts(mesh, run, "implementer")
    assert [message["role"] for message in messages] == ["system", "system", "system", "user"]
    assert messages[1]["content"].startswith("Shared context from requirements:\n")
    assert messages[2]["content"].startswith("Shared context from designer:\n")
    assert messages[3]["content"] == "Clerks must see overdue books."


async def test_a_designer_without_dependencies_gets_no_context(
    own_mesh: Mesh,
) -> None:
    mesh = own_mesh
    await role(mesh, "requirements")
    await role(mesh, "designer", ARCHON_DEPENDS_ON="")
    await role(mesh, "implementer")
    text, _ = brief(3)
    run = (await mesh.client.submit(text, wait=30)).run
    records = {record.role: record async for record in mesh.client.records(run.run_id)}
    assert len(json.loads(records["designer"].request_json)["messages"]) == 2, (
        "the role's prompt and the goal, no context"
    )
    assert "From requirements: R1. " not in json.loads(records["designer"].response_json)["text"]
    assert "From requirements: R1. " in answer_text(run)


async def test_a_role_with_an_openai_endpoint_streams_its_tokens(own_mesh: Mesh) -> None:
    mesh = own_mesh
    watched, events = asyncio.Event(), []
    async with OpenAIServer() as server:
        server.script(Answer(events=[chunk({"content": text}) for text in ("R1: ", "blue.")], gate=watched))
        await role(
            mesh,
            "requirements",
            ARCHON_MODEL="openai/test-model",
            OPENAI_BASE_URL=server.url,
            OPENAI_API_KEY="sk-test",
        )
        handle = await mesh.client.submit("Clerks must see overdue books.", roles=["requirements"])
        async for event in handle.events():
            watched.set()  # pieces of a text are for those who watch
            events.append(event)
        run = await handle.result()
    assert run.state == TaskState.COMPLETED, run.failure
    assert any(event.proto.text_delta.text for event in events)
    assert run.usage.model_calls == 1
    assert len(server.received) == 1


@pytest.mark.slow
async def test_an_unreachable_model_fails_the_run_without_its_key(own_mesh: Mesh) -> None:
    mesh = own_mesh
    await role(
        mesh,
        "requirements",
        ARCHON_MODEL="openai/test-model",
        OPENAI_BASE_URL="http://127.0.0.1:9/v1",
        OPENAI_API_KEY="sk-very-secret",
    )
    run = (await mesh.client.submit("x must y", roles=["requirements"], wait=30)).run
    assert run.state == TaskState.FAILED
    assert run.proto.failure.code == 14
    assert "sk-very-secret" not in str(run)
