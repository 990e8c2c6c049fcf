"""What `archon pause` and `archon resume` print, also if another replica has yet to apply the command."""

from __future__ import annotations

from typing import Any

import pytest

from archon.api.orchestrator.v1 import run_pb2
from archon.types import Run
from archon_services.cli.commands import pause, resume
from tests.unit.services.cli.commands.runs_with_questions import run_with


class FakeClient:
    """A client whose run is `before`, and `after` once it is paused or resumed."""

    def __init__(self, before: run_pb2.Run, after: run_pb2.Run) -> None:
        self._before, self._after = Run(before), Run(after)

    def __call__(self, _: str) -> FakeClient:
        return self

    async def __aenter__(self) -> FakeClient:
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def list_runs(self, **_: object) -> list[Run]:
        return [self._before]

    async def get(self, _: str) -> Run:
        return self._before

    async def pause(self, _: str) -> Run:
        return self._after

    resume = pause


@pytest.mark.parametrize(
    ("command", "before", "after", "text"),
    [
        (pause._pause, run_with(), run_with(paused=True), "Run r is paused. Resume it with `archon resume r`."),
        (pause._pause, run_with(), run_with(), "Run r is being paused. Resume it with `archon resume r`."),
        (pause._pause, run_with(paused=True), run_with(), "Run r is already paused. Resume it with `archon resume r`."),
        (resume._resume, run_with(), run_with(), "Run r is not paused."),
        (resume._resume, run_with(paused=True), run_with(paused=True), "Run r is being resumed."),
        (resume._resume, run_with(paused=True), run_with(), "Run r is resumed."),
        (
            *(resume._resume, run_with(paused=True), run_with("r.1/q1")),
            'Run r is resumed and waiting for input: archon respond r --question 1/q1 "..."',
        ),
    ],
)
async def test_pause_and_resume_print_the_state_of_the_run(
    monkeypatch: pytest.MonkeyPatch, command: Any, before: run_pb2.Run, after: run_pb2.Run, text: str
) -> None:
    monkeypatch.setattr("archon.client.Client", FakeClient(before, after))
    assert await command("h:1", "r", "") == text
