"""Recorded replies of a model for one agent: from the file of a run, refused with a difference, and recorded anew."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from archon.errors import ArchonError, FailedPrecondition, InvalidArgument, NotFound
from archon_mesh.agent import Agent
from archon_mesh.core.messages import ToolCall
from archon_mesh.llm import ModelClient, ScriptedModel
from archon_mesh.testing import RecordedModel
from archon_mesh.tools import FunctionTool
from tests.fixtures.recorded_calls import model_record, record_calls, write_run_file

PROMPT = "You look at places.\nBe brief."
REPLIES: list[ToolCall | str] = [ToolCall("c1", "look", '{"place": "attic", "password": "hush"}'), "A box."]


def look(place: str, password: str = "") -> str:
    """Looks at a place."""
    return f"{place}: a box"


def looker(model: ModelClient, prompt: str = PROMPT) -> Agent:
    return Agent("looker", model=model, system_prompt=prompt, tools=[FunctionTool(look)])


def digest(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()


@pytest.fixture
async def file(tmp_path: Path) -> Path:
    records = await record_calls(looker(ScriptedModel(REPLIES)), "What is in the attic?", role="looker")
    return write_run_file(tmp_path / "run.archon", records)


async def test_an_agent_gives_its_recorded_answer(file: Path) -> None:
    with RecordedModel(file) as model:
        assert (model.model, model.input, model.answer) == ("scripted", "What is in the attic?", "A box.")
        assert await looker(model).run_async(model.input) == model.answer


async def test_a_changed_request_is_refused_with_its_difference(file: Path) -> None:
    model = RecordedModel(file, "looker")
    with pytest.raises(ArchonError) as raised:
        await looker(model, PROMPT.replace("brief", "long")).run_async(model.input)
    lines = str(raised.value).splitlines()
    assert lines[0].endswith("has no such call of looker; it differs from call 1, the next one:")
    assert "-Be brief." in lines and "+Be long." in lines and " You look at places." in lines
    with pytest.raises(AssertionError, match="-Be brief"):
        model.check()


async def test_a_call_that_is_not_made_or_made_twice_fails(file: Path) -> None:
    with pytest.raises(AssertionError, match="did not make these of its recorded calls: 1, 2"), RecordedModel(file):
        pass
    model = RecordedModel(file)
    await looker(model).run_async(model.input)
    with pytest.raises(ArchonError, match="call 1 is the same, and its reply was given already"):
        await looker(model).run_async(model.input)


async def test_an_error_of_the_test_is_not_replaced(file: Path) -> None:
    with pytest.raises(KeyError), RecordedModel(file):
        raise KeyError


async def test_lines_that_differ_from_day_to_day_can_be_replaced(file: Path) -> None:
    def without_days(line: str) -> str:
        return line.replace("Monday", "today").replace("Be brief.", "Be brief today.")

    with RecordedModel(file, normalize=without_days) as model:
        answer = await looker(model, PROMPT.replace("brief.", "brief Monday.")).run_async(model.input)
        assert answer == model.answer


async def test_replies_are_recorded_anew_on_demand(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARCHON_RERECORD", "1")
    prompt, before = "Look well.", digest(file)
    with pytest.raises(FailedPrecondition, match="only with `live`"):
        RecordedModel(file)
    with RecordedModel(file, live=ScriptedModel([REPLIES[0], "Two boxes."])) as live:
        assert await looker(live, prompt).run_async(live.input) == "Two boxes."
        with pytest.raises(FailedPrecondition, match="no recorded answer"):
            _ = live.answer
    monkeypatch.delenv("ARCHON_RERECORD")
    recorded = file.with_name("run.looker.jsonl").read_text()
    assert "Two boxes." in recorded and digest(file) == before
    with RecordedModel(file, live="openai/needs-no-key-now") as model:
        assert await looker(model, prompt).run_async(model.input) == model.answer == "Two boxes."


async def test_a_recording_that_fails_keeps_the_earlier_one(file: Path) -> None:
    cassette = file.with_name("run.looker.jsonl")
    cassette.write_text("")
    model = RecordedModel(file, live=ScriptedModel(["One."]), rerecord=True)
    with pytest.raises(KeyError), model:
        await looker(model).run_async("x")
        raise KeyError
    assert cassette.read_text() == ""


def test_calls_of_attempts_that_were_lost_need_not_be_made(tmp_path: Path) -> None:
    user = {"role": "user", "content": "Draw."}
    records = [model_record(user), model_record(user, attempt=2)]
    with (
        pytest.raises(AssertionError, match="recorded calls: 2"),
        RecordedModel(write_run_file(tmp_path / "r", records)),
    ):
        pass


async def test_files_without_usable_calls_are_refused(file: Path, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no model calls of cook; it has calls of looker"):
        RecordedModel(file, "cook")
    two = write_run_file(tmp_path / "two", [model_record(role="a"), model_record(role="b")])
    with pytest.raises(NotFound, match="model calls of a, b: name one of them"):
        RecordedModel(two)
    redacted = write_run_file(tmp_path / "redacted", [model_record({"role": "user", "content": {"redacted": {}}})])
    with pytest.raises(FailedPrecondition, match="were not recorded"):
        RecordedModel(redacted)
    other = tmp_path / "other"
    other.write_text("x")
    with pytest.raises(InvalidArgument, match="is no run file"):
        RecordedModel(other)
