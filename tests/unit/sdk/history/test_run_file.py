"""The file of a run: what is read is what was written, and a file that was changed is refused with the place."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from archon.api.orchestrator.v1 import run_pb2
from archon.errors import InvalidArgument
from archon.history import MemoryVersion, RecordedStep, RunManifest, anchor_of, link_of, open_run_file
from archon.history.bundle import head_line, step_line
from archon.history.run_file import HISTORY, MEMORY, RECORDS, RunFileWriter, memory_line, record_line
from archon.types import RunRecord

RECORD = run_pb2.RunRecord(role="a", ordinal=1, kind="model", target="m", request_json='{"é":1}', response_json='"x"')
RECORD.task.run_id, RECORD.task.task_id, RECORD.task.attempt = "r", "r.1", 2
RECORD.start_time.FromNanoseconds(1_700_000_000_123_456_789)
RECORD.duration.FromNanoseconds(5)
RECORD.usage.input_tokens, RECORD.usage.estimated = 7, True
VERSION = MemoryVersion("r", "a", 1, 3, "final_response_only", "answer", {"k": "v"})


def steps() -> list[RecordedStep]:
    made, link = [], anchor_of("r")
    for base in range(3):
        link = link_of(link, "r", base, base + 1, b"event", b"input")
        made.append(RecordedStep(base, base + 1, b"event", b"input", link))
    return made


def written(path: Path) -> Path:
    output = io.BytesIO()
    writer = RunFileWriter(output)
    writer.write_part(HISTORY, [head_line("r", 3, ended=True), *map(step_line, steps())])
    writer.write_part(RECORDS, [record_line(RunRecord(RECORD))])
    writer.write_part(MEMORY, [memory_line(VERSION)])
    writer.close(RunManifest("r", 3, ended=True, made_by="9.9", roles={"a": ("1.0",)}))
    path.write_bytes(output.getvalue())
    return path


def changed(path: Path, name: str, change: Callable[[bytes], bytes | None]) -> Path:
    """Writes the archive again with another content of a part; None leaves it out."""
    with zipfile.ZipFile(path) as archive:
        parts = {each: archive.read(each) for each in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for each, content in parts.items():
            kept = change(content) if each == name else content
            if kept is not None:
                archive.writestr(each, kept)
    return path


def refusal(path: Path) -> str:
    with pytest.raises(InvalidArgument) as error:
        open_run_file(path)
    return error.value.message.removeprefix(str(path)).removeprefix(":").strip()


def test_a_file_has_what_was_written(tmp_path: Path) -> None:
    file = open_run_file(written(tmp_path / "run.archon"))
    assert list(file.history().steps) == steps() and file.history().ended
    assert [record.proto for record in file.records()] == [RECORD]
    assert list(file.memory()) == [VERSION]
    assert (file.run_id, file.manifest.made_by, file.manifest.roles) == ("r", "9.9", {"a": ("1.0",)})
    assert written(tmp_path / "again.archon").read_bytes() == file.path.read_bytes()


def test_a_changed_step_is_named(tmp_path: Path) -> None:
    def change(content: bytes) -> bytes:
        lines = content.splitlines(keepends=True)
        values = json.loads(lines[2])
        return b"".join([*lines[:2], json.dumps(values | {"inputs": ""}).encode() + b"\n", *lines[3:]])

    path = changed(written(tmp_path / "run.archon"), HISTORY, change)
    assert refusal(path) == "history.jsonl was changed: the step after event 1 was changed: its link does not match"


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        (HISTORY, lambda content: content[:-40], "history.jsonl was changed: a line of the history is no JSON"),
        (HISTORY, lambda content: b"\n".join(content.split(b"\n")[:3]) + b"\n", "the step after event 2 is missing"),
        (
            RECORDS,
            lambda content: content.replace(b"model", b"modem"),
            "records.jsonl was changed: its SHA-256 differs",
        ),
        (RECORDS, lambda content: b"", "records.jsonl was changed: 0 lines in place of 1"),
        (MEMORY, lambda content: None, "memory.jsonl is missing"),
        ("manifest.json", lambda content: None, "is no run file: it has no manifest.json"),
        ("manifest.json", lambda content: content[:-9], "manifest.json was changed: it cannot be read"),
        ("manifest.json", lambda content: b"{}", "is no run file: manifest.json has no `archon_run`"),
        ("manifest.json", lambda content: b'{"archon_run": 1}', "manifest.json was changed: it lacks"),
        (
            "manifest.json",
            lambda content: content.replace(b'"archon_run": 1', b'"archon_run": 2'),
            "is a run file of version 2, written by Archon 9.9; this version of Archon reads files up to version 1",
        ),
    ],
)
def test_a_changed_file_is_refused(
    tmp_path: Path, name: str, change: Callable[[bytes], bytes | None], said: str
) -> None:
    assert said in refusal(changed(written(tmp_path / "run.archon"), name, change))


def test_every_truncated_file_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "run.archon")
    whole = path.read_bytes()
    for size in range(0, len(whole), 7):
        path.write_bytes(whole[:size])
        said = refusal(path)
        assert said == f"is cut off after {size:,} bytes: the end of the archive is missing" or size < 2, (size, said)


def test_every_flipped_byte_is_refused_or_harmless(tmp_path: Path) -> None:
    path = written(tmp_path / "run.archon")
    whole = path.read_bytes()
    refused = 0
    for position in range(0, len(whole), 11):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 0x55]) + whole[position + 1 :])
        try:
            file = open_run_file(path)
        except InvalidArgument:
            refused += 1
        else:  # a field of the archive that says nothing, such as a time
            assert list(file.history().steps) == steps() and [each.proto for each in file.records()] == [RECORD]
    assert refused
