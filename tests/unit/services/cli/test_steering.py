"""What `archon respond`, `pause` and `resume` say came of it, also where another orchestrator has yet to do it."""

from __future__ import annotations

from typing import Any

import pytest

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon_services.cli.commands import pause, respond, resume
from archon_services.cli.errors import USAGE, CliError

WORKING = common_pb2.TASK_STATE_WORKING


def run_with(*input_ids: str, **fields: Any) -> run_pb2.Run:
    run = run_pb2.Run(run_id="r", **{"state": WORKING, **fields})
    for input_id in input_ids:
        run.questions.add(input_id=input_id, role="clerk", prompt=[common_pb2.Part(text="sure?")])
    return run


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (run_with(), "Answered; run r goes on."),
        (run_with("r.2/q1"), "Answered; run r still asks 2/q1 (clerk: sure?)."),
        (run_with("r.1/q1"), "The answer was taken; run r hasn't gone on with it yet."),
        (run_with(paused=True), "Answered; run r is paused, and `archon resume r --orchestrator h:1` lets it go on."),
        (run_with(state=common_pb2.TASK_STATE_FAILED), "Answered; run r has ended: failed."),
    ],
)
def test_respond_says_what_became_of_the_answer(run: run_pb2.Run, said: str) -> None:
    assert respond._outcome(run, "r.1/q1", " --orchestrator h:1") == said


def test_a_question_is_named_by_its_id_whole_or_within_its_run() -> None:
    run = run_with("r.1/q1", "r.2/q1")
    for named in ("r.2/q1", "2/q1"):
        asked = respond._chosen(run, named, "")
        assert asked is not None
        assert asked.input_id == "r.2/q1"
    assert respond._chosen(run, "q1", "") is None
    assert (respond._full_id(run, None, "7/q1"), respond._full_id(run, None, "r.7/q1")) == ("r.7/q1", "r.7/q1")
    with pytest.raises(CliError, match="asks 2 questions") as caught:
        respond._chosen(run, "", "")
    assert (caught.value.code, "2/q1 (clerk: sure?)" in caught.value.hint) == (USAGE, True)


def test_where_nothing_is_asked_only_an_answer_with_a_name_may_have_come_before() -> None:
    with pytest.raises(CliError, match="asks nothing: its state is working"):
        respond._chosen(run_with(), "", "")
    assert respond._chosen(run_with(), "", "request-1") is None


class Fake:
    """A client whose run is `before`, and `after` once it was steered."""

    def __init__(self, before: run_pb2.Run, after: run_pb2.Run) -> None:
        self._before, self._after = before, after

    def __call__(self, _: str) -> Fake:
        return self

    async def __aenter__(self) -> Fake:
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def list_runs(self, **_: object) -> list[run_pb2.Run]:
        return [self._before]

    async def get(self, _: str) -> run_pb2.Run:
        return self._before

    async def pause(self, _: str) -> run_pb2.Run:
        return self._after

    resume = pause


@pytest.mark.parametrize(
    ("command", "before", "after", "said"),
    [
        (pause._pause, run_with(), run_with(paused=True), "Run r is paused; `archon resume r` lets it go on."),
        (pause._pause, run_with(), run_with(), "Run r is being paused; `archon resume r` lets it go on."),
        (pause._pause, run_with(paused=True), run_with(), "Run r is paused already; `archon resume r` lets it go on."),
        (resume._resume, run_with(), run_with(), "Run r isn't paused."),
        (resume._resume, run_with(paused=True), run_with(paused=True), "Run r is about to go on."),
        (resume._resume, run_with(paused=True), run_with(), "Run r goes on."),
        (
            *(resume._resume, run_with(paused=True), run_with("r.1/q1")),
            'Run r goes on, and waits for a person: archon respond r --question 1/q1 "..."',
        ),
    ],
)
async def test_pause_and_resume_say_how_the_run_stands(
    monkeypatch: pytest.MonkeyPatch, command: Any, before: run_pb2.Run, after: run_pb2.Run, said: str
) -> None:
    monkeypatch.setattr("archon.client.Client", Fake(before, after))
    assert await command("h:1", "r", "") == said
