"""The report of model calls, written call by call."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from archon.api.orchestrator.v1.run_pb2 import RunRecord
from archon_services.cli.errors import CliError
from archon_services.cli.render.prompt_output import JsonOutput, PromptOutput, TextOutput
from archon_services.cli.render.prompt_sections import read_prompt

REQUEST = json.dumps({"messages": [{"role": "user", "content": "Go.\nNow."}], "origins": [{"kind": "input"}]})


def write_calls(output: PromptOutput, count: int) -> None:
    for number in range(count):
        record = RunRecord(role=f"role-{number}", kind="model", request_json=REQUEST)
        output.call(record, read_prompt(record, 0), 1)
    output.end("a note" if not count else "")


@pytest.mark.parametrize("count", [0, 1, 3])
def test_json_is_one_array(capsys: pytest.CaptureFixture[str], count: int) -> None:
    write_calls(JsonOutput(None), count)
    printed = capsys.readouterr().out
    documents = json.loads(printed)
    assert [document["role"] for document in documents] == [f"role-{number}" for number in range(count)]
    assert all(document["request"] == json.loads(REQUEST) for document in documents)
    assert printed == json.dumps(documents, indent=2, ensure_ascii=False) + "\n"


def test_text_ends_with_the_note(capsys: pytest.CaptureFixture[str]) -> None:
    write_calls(TextOutput(None, with_text=True), 0)
    assert capsys.readouterr().out == "a note\n"
    write_calls(TextOutput(None, with_text=True), 2)
    printed = capsys.readouterr().out
    assert printed.count("--- 1 user: input of the task, ~2 tokens ---\nGo.\nNow.\n") == 2


def test_file_has_what_would_be_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_calls(TextOutput(None, with_text=False), 2)
    printed = capsys.readouterr().out
    file = tmp_path / "prompts.txt"
    write_calls(TextOutput(file, with_text=False), 2)
    assert (file.read_text(), capsys.readouterr().out) == (printed, f"Wrote {file}.\n")


def test_file_is_not_created_before_the_first_call(tmp_path: Path) -> None:
    file = tmp_path / "prompts.json"
    output = JsonOutput(file)
    assert not file.exists()
    write_calls(output, 0)
    assert json.loads(file.read_text()) == []


@pytest.mark.parametrize("count", [0, 1])
def test_file_that_cannot_be_written_is_an_error(tmp_path: Path, count: int) -> None:
    with pytest.raises(CliError, match=r"cannot write .*: No such file or directory"):
        write_calls(TextOutput(tmp_path / "absent" / "x", with_text=True), count)


def test_full_disk_is_an_error() -> None:
    with pytest.raises(CliError, match="cannot write /dev/full: No space left on device"):
        write_calls(JsonOutput(Path("/dev/full")), 1)
