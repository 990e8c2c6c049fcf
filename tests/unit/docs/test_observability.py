"""docs/observability.md names every field of the JSON of `archon trace`, and what a recorded call costs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from archon.agent import TaskContext
from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import common_pb2
from archon_mesh.llm import create_model
from archon_mesh.node import role_handler
from archon_services.cli.render.prompt_sections import LABELS
from archon_services.reports.waterfall.document import waterfall_document
from archon_services.reports.waterfall.spans import SpanKind, TimeKind
from tests.fixtures.fake_link import FakeLink
from tests.fixtures.reference_roles import reference_role
from tests.unit.services.reports.waterfall.journals import delegation

PAGE = (Path(__file__).parents[3] / "docs" / "observability.md").read_text()
BRIEF = (Path(__file__).parents[3] / "examples" / "documents" / "library.md").read_text()
TOLERANCE = 0.05
"""Part by which the bytes on the page may differ."""


def test_page_describes_every_field_and_kind_of_the_trace() -> None:
    data = waterfall_document(delegation().waterfall())
    described = set(re.findall(r"`([a-z_]+)`", PAGE))
    fields = {*data, *data["spans"][0], *data["critical_path"][0], *data["time"]["model"]}
    assert fields <= described, fields - described
    kinds = {kind.value for kind in (*TimeKind, *SpanKind)}
    assert kinds <= described, kinds - described


def test_page_names_every_origin_of_a_message() -> None:
    rows = re.findall(r"^\| ([a-z` ]+?) \| (?:`[a-z_]+`) \|", PAGE, re.M)
    assert {label for kind, label in LABELS.items() if kind not in ("unknown", "tool_result")} <= set(rows)


async def test_page_has_the_bytes_of_a_recorded_call(monkeypatch: pytest.MonkeyPatch) -> None:
    for mode in ("full", "redacted", "off"):
        monkeypatch.setenv("ARCHON_RECORDS", mode)
        answers: list[tuple[str, str]] = []
        for name in ("requirements", "designer", "implementer"):
            task = task_with(answers, name)
            answer = await role_handler(reference_role(name), create_model("offline"))(task)
            shown = re.search(rf"^\| {name} \|.*$", PAGE, re.M)
            assert shown is not None
            column = ["full", "redacted", "off"].index(mode)
            number = int(re.findall(r"[\d,]+", shown[0])[column].replace(",", ""))
            assert recorded_bytes(task) == pytest.approx(number, rel=TOLERANCE), f"{name}, {mode}"
            answers.append((name, answer.text))


def task_with(answers: Sequence[tuple[str, str]], role: str) -> TaskContext:
    assigned = agent_pb2.AssignTask(input=[common_pb2.Part(text=BRIEF)])
    for upstream, text in answers:
        item = assigned.context.add(parts=[common_pb2.Part(text=text)])
        item.ref.role, item.ref.version = upstream, 1
    return TaskContext.from_proto(common_pb2.TaskRef(task_id="t", attempt=1), assigned, FakeLink([]), role=role)


def recorded_bytes(task: TaskContext) -> int:
    return sum(len((record.request_json + record.response_json).encode()) for record in task.take_records())
