"""`archon memory` on long-term memory, against a memory service in a process of its own."""

from __future__ import annotations

import json
import re
import shlex
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.e2e.shown_output import matches, steps
from tests.e2e.terminal import Terminal
from tests.fixtures.services import ServiceProcess

PAGE = Path(__file__).parents[2] / "docs" / "memory.md"
UUID = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")


@pytest.fixture(scope="module")
async def terminal(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Terminal]:
    """A terminal whose ARCHON_MEMORY is a running memory service."""
    home = tmp_path_factory.mktemp("home")
    service = ServiceProcess("archon_services.memory", home, "--registry", "127.0.0.1:9", "--db", ":memory:")
    await service.start()
    try:
        yield Terminal(home, ARCHON_MEMORY=service.address)
    finally:
        await service.close()


def test_a_memory_is_stored_found_rated_and_forgotten(terminal: Terminal) -> None:
    entry_id = terminal.archon(
        "memory", "store", "Ana is vegetarian.", "--user", "ana", "--importance", "0.8"
    ).out.strip()
    assert uuid.UUID(entry_id)
    terminal.archon("memory", "store", "-", "--user", "ben", stdin="Ben is a vegetarian, too.")
    found = terminal.archon("memory", "search", "Which vegetarian dishes?", "--user", "ana").out.splitlines()
    assert len(found) == 2
    assert entry_id in found[1] and found[1].endswith("Ana is vegetarian.")
    [as_json] = json.loads(terminal.archon("memory", "search", "vegetarian", "--user", "ana", "--json").out)
    assert (as_json["id"], as_json["importance"]) == (entry_id, 0.8)
    assert terminal.archon("memory", "rate", entry_id, "useful").out == f"Rated {entry_id} as useful.\n"
    shown = terminal.archon("memory", "show", entry_id).out
    assert "1 useful, 0 not useful" in shown
    assert shown.endswith("\nAna is vegetarian.\n")
    assert terminal.archon("memory", "forget", entry_id).code == 0
    assert terminal.archon("memory", "show", entry_id).code == 4
    assert terminal.archon("memory", "forget", "--user", "ben").out == "Memories deleted: 1\n"
    assert terminal.archon("memory", "search", "vegetarian", "--threshold", "0.9").out == "No memory was found.\n"


def test_an_export_is_imported_again(terminal: Terminal, tmp_path: Path) -> None:
    file = str(tmp_path / "export.jsonl")
    for number in range(3):
        terminal.archon("memory", "store", f"fact {number}", "--session", "s9")
    assert terminal.archon("memory", "export", file).out == f"Memories written to {file}: 3\n"
    assert terminal.archon("memory", "forget", "--session", "s9").out == "Memories deleted: 3\n"
    assert terminal.archon("memory", "import", file).out == "New memories stored: 3\n"
    assert json.loads(terminal.archon("memory", "stats", "--json").out)["active"] == 3
    assert "active" in terminal.archon("memory", "stats").out
    refused = terminal.archon("memory", "import", str(tmp_path / "missing"))
    assert refused.code == 4 and len(refused.error_lines) <= 2
    assert terminal.archon("memory", "export", str(tmp_path / "no" / "folder" / "f")).code in (0, 1)


def test_wrong_usage_is_refused(terminal: Terminal) -> None:
    unknown = str(uuid.uuid4())
    assert terminal.archon("memory", "rate", unknown, "useful").code == 4
    assert terminal.archon("memory", "forget", unknown).code == 4
    for wrong in (["forget"], ["forget", unknown, "--user", "ana"], ["rate", unknown, "great"], ["store", " "]):
        assert terminal.archon("memory", *wrong).code == 2, wrong
    refused = terminal.archon("memory", "stats", "--memory", "127.0.0.1:1")
    assert (refused.code, refused.error_lines[0]) == (3, "error: cannot reach the memory service at 127.0.0.1:1")


def test_the_section_about_contradictions_prints_what_it_shows(terminal: Terminal) -> None:
    section = PAGE.read_text().partition("\n## Contradictions\n")[2].partition("\n## ")[0]
    shown, last_id = steps(section), ""
    for step in shown:
        lines = [shlex.split(line)[1:] for line in step.commands.splitlines()]
        results = [terminal.archon(*(last_id if word == "ID" else word for word in line)) for line in lines]
        printed = "".join(result.out for result in results)
        assert all(result.code == 0 for result in results), results
        assert matches(UUID.sub("ID", step.shown), UUID.sub("ID", printed)), printed
        last_id = UUID.findall(printed)[-1]
    assert len(shown) == 2
    assert terminal.archon("memory", "forget", "--user", "ana").code == 0
