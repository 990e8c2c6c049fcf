"""The key `memory` of an agent's file gives it a memory in files, which the next process finds."""

from __future__ import annotations

from pathlib import Path

from archon_mesh.declared import load_agent
from archon_mesh.llm import ModelRequest, ScriptedModel
from tests.integration.mesh.memory.automatic.test_middleware import memories

FILE = """name: clerk
system_prompt: You help.
memory: {threshold: 0.3, half_life: 30, budget: 4000, window: 2000}
"""


async def test_an_agent_of_a_file_remembers(tmp_path: Path) -> None:
    path = tmp_path / "clerk.yaml"
    path.write_text(FILE)
    requests: list[ModelRequest] = []

    def reply(request: ModelRequest) -> str:
        requests.append(request)
        return "Noted."

    for query in ("I only fly with window seats.", "Take me to Oslo."):
        declared = load_agent(path, model=ScriptedModel(reply), environment={"ARCHON_HOME": str(tmp_path / "home")})
        async with declared.agent:
            await declared.agent.run_async(query)
    assert memories(requests[0]) == []
    assert memories(requests[-1])[0] == "I only fly with window seats."
    assert (tmp_path / "home" / "agent_memory.db").stat().st_mode & 0o777 == 0o600


async def test_memory_that_is_switched_off_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "clerk.yaml"
    path.write_text("name: clerk\nmemory: {long_term: false}\n")
    declared = load_agent(path, model=ScriptedModel(["Hello."]), environment={"ARCHON_HOME": str(tmp_path / "home")})
    assert await declared.agent.run_async("Hello") == "Hello."
    assert not (tmp_path / "home").exists()
