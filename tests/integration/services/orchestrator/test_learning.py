"""A mesh that learns: prompt variants are chosen, recorded, replayed by forks, moved by outcomes, and decided about."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from archon.agent import AgentServer, AgentSettings
from archon.errors import LearnedVersionDecided, LearningOff, OutputMismatch, UnknownLearnedVersion
from archon.learning import CHOICES_KEY, read_choices
from archon.types import Run
from archon_mesh.agent.agent import Agent
from archon_mesh.llm import ModelRequest, ScriptedModel
from archon_mesh.node.role import Role
from archon_mesh.node.serve import agent_server
from tests.fixtures.mesh import Mesh
from tests.fixtures.waiting import eventually

SEEN: list[str] = []


def answer(request: ModelRequest) -> str:
    """Fails with the system prompt that is the variant `default`."""
    prompt = request.messages[0].content
    SEEN.append(prompt)
    if prompt == "You ramble.":
        raise OutputMismatch("too long")
    return "short"


async def start(tmp_path: Path, **environment: str) -> Mesh:
    mesh = Mesh(tmp_path)
    await mesh.start(**environment)
    return mesh


async def writer(mesh: Mesh) -> AgentServer:
    agent = Agent(
        "writer",
        system_prompt="You ramble.",
        prompt_variants={"brief": "You are brief.", "plain": "You are plain."},
        model=ScriptedModel(answer),
        retries=0,
    )
    role = Role("writer", "You ramble.")
    server = agent_server(role, agent, AgentSettings(registry=mesh.registry.address), memory="")
    await server.start()

    async def known() -> bool:
        return bool(server._sessions)

    await eventually(known)
    return server


@pytest.fixture
async def learning_mesh(tmp_path: Path) -> AsyncIterator[Mesh]:
    mesh = await start(tmp_path, ARCHON_LEARNING="on")
    server = await writer(mesh)
    yield mesh
    await server.stop(0.0)
    await mesh.stop()


async def passed(mesh: Mesh, condition: Callable[[], Awaitable[bool]]) -> None:
    """Lets the time of the mesh pass until the condition holds, at most some minutes."""
    for _ in range(100):
        await mesh.advance(3)
        if await condition():
            return
    raise AssertionError("it never holds")


async def ended(mesh: Mesh, number: int) -> Run:
    handle = await mesh.client.submit(f"goal {number}", roles=["writer"])
    return await mesh.advance_until(handle.result(60))


async def test_choices_follow_outcomes_and_wait_for_a_person(learning_mesh: Mesh) -> None:
    mesh = learning_mesh
    assert await mesh.client.learned_versions() == []
    runs = [await ended(mesh, number) for number in range(24)]
    for run in runs:
        choice = read_choices(run.metadata).of("writer")
        assert (run.state.name == "FAILED") == (choice.variant == "default")
    used = {read_choices(run.metadata).of("writer").variant for run in runs}
    assert used == {"brief", "default", "plain"}

    async def proposed() -> bool:
        return any(version.origin == "proposed" for version in await mesh.client.learned_versions())

    await passed(mesh, proposed)
    newest, *earlier = await mesh.client.learned_versions()
    assert not newest.in_use
    assert [version.in_use for version in earlier] == [True] + [False] * (len(earlier) - 1)
    weight = {each.name: each.weight for each in newest.weights if each.kind == "variant"}
    assert weight["default"] < 0.75 < 1 < weight["brief"]
    with pytest.raises(LearnedVersionDecided):
        await mesh.client.decide_learned(1, approve=True)
    approved = await mesh.client.decide_learned(newest.version, approve=True, comment="fine")
    assert (approved.origin, approved.of_version, approved.in_use) == ("approved", newest.version, True)
    choices = read_choices((await ended(mesh, 99)).metadata)
    assert choices.version == approved.version
    assert choices.of("writer").weights["default"] == weight["default"]
    with pytest.raises(UnknownLearnedVersion):
        await mesh.client.revert_learned(77)
    reverted = await mesh.client.revert_learned(0, comment="again")
    assert reverted.weights[0].weight == 1 or reverted.weights == ()
    assert set(read_choices((await ended(mesh, 100)).metadata).of("writer").weights.values()) == {1}


async def test_a_fork_keeps_the_choice_of_its_run(learning_mesh: Mesh) -> None:
    mesh = learning_mesh
    run = await ended(mesh, 1)
    SEEN.clear()
    fork = await mesh.advance_until((await mesh.client.fork(run.run_id, rerun=["writer"])).result(60))
    assert fork.metadata[CHOICES_KEY] == run.metadata[CHOICES_KEY]
    variant = read_choices(run.metadata).of("writer").variant
    prompts = {"default": "You ramble.", "brief": "You are brief.", "plain": "You are plain."}
    assert set(SEEN) == {prompts[variant]}


async def test_a_caller_cannot_choose_by_metadata(learning_mesh: Mesh) -> None:
    forged = '{"version": 9, "roles": {"writer": {"variant": "default"}}}'
    handle = await learning_mesh.client.submit("x", roles=["writer"], metadata={CHOICES_KEY: forged})
    run = await learning_mesh.advance_until(handle.result(60))
    assert read_choices(run.metadata).version == 0


async def test_a_mesh_that_does_not_learn_uses_the_system_prompt(own_mesh: Mesh) -> None:
    server = await writer(own_mesh)
    SEEN.clear()
    run = await ended(own_mesh, 1)
    assert CHOICES_KEY not in run.metadata
    assert set(SEEN) == {"You ramble."}
    with pytest.raises(LearningOff):
        await own_mesh.client.learned_versions()
    with pytest.raises(LearningOff):
        await own_mesh.client.revert_learned(0)
    await server.stop(0.0)


async def test_a_mark_is_part_of_the_run_until_it_is_removed(own_mesh: Mesh) -> None:
    server = await writer(own_mesh)
    run = await ended(own_mesh, 1)
    await own_mesh.client.mark(run.run_id, "odd")
    [mark] = (await own_mesh.client.get(run.run_id)).marks
    assert (mark.identity, mark.reason) == ("anonymous", "odd")
    await own_mesh.client.unmark(run.run_id)
    assert (await own_mesh.client.get(run.run_id)).marks == ()
    await server.stop(0.0)


async def test_a_run_whose_details_were_removed_says_so(tmp_path: Path) -> None:
    rules = tmp_path / "retention.yaml"
    rules.write_text("details: [{keep: forever, marked: true}]\notherwise: 2s\n")
    mesh = await start(tmp_path, ARCHON_RETENTION=str(rules))
    server = await writer(mesh)
    plain, marked = await ended(mesh, 1), await ended(mesh, 2)
    await mesh.client.mark(marked.run_id)

    async def removed() -> bool:
        return (await mesh.client.get(plain.run_id)).details_removed

    await passed(mesh, removed)
    assert not (await mesh.client.get(marked.run_id)).details_removed
    assert (await mesh.client.get(plain.run_id)).state == plain.state
    await server.stop(0.0)
    await mesh.stop()
