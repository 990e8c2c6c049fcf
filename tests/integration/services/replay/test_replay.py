"""A recorded run of four roles: exported, decided again, run again from the file, and with a role live."""

from __future__ import annotations

import json
import re
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from archon.agent import AgentSettings
from archon.errors import FailedPrecondition, NotFound
from archon.history import RecordedStep, RunFile, open_run_file, verify_run
from archon.testing import FakeAgent
from archon_services.cli.render.replay import print_run_again
from archon_services.replay import decide_again, replay_mesh, run_again
from archon_services.testing import InProcessMesh, assert_replays, replay_file
from tests.integration.services.replay.recorded import export, leader, record_run, writer

PAGE = Path(__file__).parents[4] / "docs" / "replay.md"


@pytest.fixture(scope="module")
async def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of the run; its mesh has ended."""
    folder = tmp_path_factory.mktemp("recorded")
    file = folder / "run.archon"
    exported = await record_run(folder, file)
    assert exported.manifest.ended and exported.records and exported.memory and not exported.missing
    return file


@pytest.fixture
def file(path: Path) -> RunFile:
    return open_run_file(path)


async def test_an_exported_run_replays_bit_for_bit(file: RunFile) -> None:
    recording = decide_again(file.history())
    assert recording.difference is None and recording.state.ended and not recording.undecided
    again = await run_again(recording, file.records())
    assert again.same and not again.stops and not again.played.late, again
    assert again.comparison.tasks == 6 and again.comparison.answers == 7  # six results, and an item
    ledger = {role: count for (role, live), count in again.played.ledger.items() if not live}
    assert ledger == {"requirements": 1, "checker": 1, "coder": 3, "lead": 1, "writer": 2}
    counts = [sum(e.recorded.count for e in events) for events in (recording.events, again.events)]
    assert counts[0] == counts[1] == len(list(file.records()))


async def test_a_live_role_answers_and_the_ledger_says_so(path: Path) -> None:
    again = await assert_replays(path, lead=leader)
    assert again.played.ledger["lead", True] == 1 and ("lead", False) not in again.played.ledger
    assert again.played.ledger["coder", False] == 3


async def test_a_changed_live_answer_flows_on_and_is_named(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    again = await replay_file(path, writer=lambda settings: writer(settings, "another report"))
    assert not again.same
    ((task, difference),) = again.comparison.differences
    assert (task, difference.recorded) == ("writer", "result")
    (changed,) = difference.fields
    assert (changed.path, changed.recorded, changed.now) == ("output[0].text", "'the report'", "'another report'")
    print_run_again(again, "")
    told = re.sub(r"\d+ events|event \d+", "N", capsys.readouterr().out)
    page = re.search(r"(?s)```text\n(run again: 1 task.*?)```", PAGE.read_text())
    assert page is not None and told.startswith(re.sub(r"\d+ events|event \d+", "N", page[1])), told
    with pytest.raises(AssertionError, match=r"(?s)does not go as recorded.*recorded 'the report'"):
        await assert_replays(path, writer=lambda settings: writer(settings, "another report"))


async def test_another_context_is_named_and_fails_strictly(path: Path) -> None:
    def checker(settings: AgentSettings) -> FakeAgent:
        return FakeAgent("checker", ["otherwise"], settings=settings, depends_on=["requirements"])

    again = await replay_file(path, checker=checker)
    assert [other.task for other in again.played.contexts] == ["writer", "writer"]
    (field,) = again.played.contexts[0].fields
    assert (field.recorded, field.now) == ("('checked',)", "('otherwise',)") and "checker" in field.path
    assert [task for task, _ in again.comparison.differences] == ["checker"]  # the writer answers from the file
    strict = await replay_file(path, strict=True, checker=checker)
    assert "writer" in {task for task, _ in strict.comparison.differences}


async def test_a_live_role_of_another_run_is_refused(file: RunFile) -> None:
    with pytest.raises(NotFound, match="the run has no role painter; it has checker, coder"):
        async with replay_mesh(decide_again(file.history()), live=["painter"]):
            pass


async def test_the_engine_names_the_event_that_it_decides_otherwise(file: RunFile) -> None:
    history = file.history()
    position = next(i for i, step in enumerate(history.steps) if b"SlotFound" in step.inputs)
    step = history.steps[position]
    changed = RecordedStep(
        step.base, step.last_seq, step.data, step.inputs.replace(b"requirements-", b"requirement5-"), step.link
    )
    steps = (*history.steps[:position], changed, *history.steps[position + 1 :])
    recording = decide_again(replace(history, steps=steps))
    difference = recording.difference
    assert difference is not None
    assert (difference.seq, difference.recorded, difference.cause) == (6, "Dispatched", "SlotFound")
    (field,) = difference.fields
    assert field.path == "instance_id" and "requirements-" in field.recorded and "requirement5-" in field.now
    with pytest.raises(FailedPrecondition, match="decides the recording otherwise"):
        await run_again(recording)
    assert "was changed: its link does not match" in verify_run(history.run_id, steps).fault


async def test_two_exports_of_a_run_are_the_same_bytes(tmp_path: Path) -> None:
    async with InProcessMesh(tmp_path) as mesh, FakeAgent("greeter", ["hello"], settings=mesh.agent_settings()):
        handle = await mesh.client.submit("x", roles=["greeter"], wait=10)
        one, other = tmp_path / "1.archon", tmp_path / "2.archon"
        for file in (one, other):
            await export(mesh, handle.run_id, file)
    assert one.read_bytes() == other.read_bytes()
    with zipfile.ZipFile(one) as archive:
        assert archive.namelist() == ["history.jsonl", "records.jsonl", "memory.jsonl", "manifest.json"]
        assert json.loads(archive.read("manifest.json"))["archon_run"] == 1
