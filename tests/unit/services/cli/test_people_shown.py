"""Questions to people, pauses and checkpoints on every screen."""

from __future__ import annotations

from io import StringIO

import pytest

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon_services.cli.render.questions import Asked, asked_of, shortened, words_of
from archon_services.cli.render.run_screen import JsonScreen, LineScreen, QuietScreen, TreeScreen
from archon_services.cli.render.run_view import RunView
from archon_services.cli.render.run_words import remarks, standing, task_words
from archon_services.cli.render.show_view import run_lines
from tests.unit.services.cli.delegated_run import (
    COMPLETED,
    delegated,
    dispatched,
    event,
    made,
    opening,
    result,
    view_of,
)

HOW = 'To answer: archon respond r --question 1/q1 "..."'


def asks(task: str = "t1", number: int = 1, at: int = 110, schema_json: str = "") -> run_pb2.RunEvent:
    prompt = [common_pb2.Part(text="Which\n\n  colour?")]
    said = run_pb2.InputRequested(input_id=f"r.{number}/q1", role="lead", prompt=prompt, schema_json=schema_json)
    return event(task, 1, at, input_requested=said)


def answered(task: str = "t1", at: int = 115, identity: str = "anonymous") -> run_pb2.RunEvent:
    given = run_pb2.InputGiven(input_id="r.1/q1", parts=[common_pb2.Part(text="deep\nblue")], identity=identity)
    return event(task, 0, at, input_given=given)


def paused(at: int, identity: str = "") -> run_pb2.RunEvent:
    return event(at=at, paused=run_pb2.RunPaused(identity=identity))


def resumed(at: int) -> run_pb2.RunEvent:
    return event(at=at, resumed=run_pb2.RunResumed())


def ended(at: int) -> run_pb2.RunEvent:
    return event(at=at, run_state=run_pb2.RunStateChanged(state=COMPLETED))


def lines_of(capsys: pytest.CaptureFixture[str], *events: run_pb2.RunEvent, reach: str = "") -> list[str]:
    """What a line screen says of these events after the opening, without the time."""
    screen = LineScreen(reach=reach)
    for one in opening():
        screen.event(one)
    capsys.readouterr()
    for one in events:
        screen.event(one)
    said = capsys.readouterr().err.splitlines()
    return [line.partition(" s  ")[2] if " s  " in line else line.strip() for line in said]


def test_a_question_is_told_with_all_that_is_needed_to_answer_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert lines_of(capsys, asks(), answered(), answered(identity="ann")) == [
        *("lead           asks a person: Which colour?", HOW),
        *("lead           is answered: deep blue", "lead           is answered by ann: deep blue"),
    ]
    assert lines_of(capsys, asks(schema_json='{"type":\n"integer"}'), reach=" --orchestrator h:1")[1:] == [
        'The answer must fit {"type": "integer"}',
        'To answer: archon respond r --question 1/q1 --orchestrator h:1 "..."',
    ]


def test_pauses_and_checkpoints_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    saved = run_pb2.CheckpointTaken(size=1234, sequence=1)
    assert lines_of(capsys, event("t1", checkpoint=saved), paused(111), paused(112, "ann"), resumed(113)) == [
        "lead           leaves a checkpoint of 1,234 bytes",
        *("run r is paused", "run r is paused by ann", "run r goes on"),
    ]
    view = view_of(event("t1", checkpoint=saved))
    assert task_words(view, view.tasks["t1"]) == "working  on lead-x  checkpoint of 1,234 bytes"
    view.apply(result("t1", "lead"))
    assert "checkpoint" not in task_words(view, view.tasks["t1"]), "nothing goes on from it any more"


def test_what_an_agent_asks_steers_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    evil = event("t1", input_requested=run_pb2.InputRequested(input_id="r.1/a b\x1b", role="lead"))
    evil.input_requested.prompt.add(text="\x1b[2Jhello")
    for screen in (LineScreen(), QuietScreen()):
        for one in [*opening(), evil]:
            screen.event(one)
        told = capsys.readouterr().err
        assert "\x1b" not in told
        assert "--question '1/a b'" in told, "it can be pasted into a shell"


def test_quiet_says_questions_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    screen = QuietScreen()
    for one in [*opening(), asks(schema_json="{}"), answered(), paused(116)]:
        screen.event(one)
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines() == ["lead asks:", "Which", "  colour?", "The answer must fit {}", HOW]


def test_json_has_them_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    JsonScreen().event(asks())
    assert '"input_requested": {"input_id": "r.1/q1"' in capsys.readouterr().out


def test_a_task_that_asks_waits_for_a_person_and_so_does_its_run_until_it_is_answered() -> None:
    view = view_of(asks())
    lead = view.tasks["t1"]
    assert (view.shown_state, lead.state) == ("input required", "input required")
    assert task_words(view, lead) == "waits for a person's answer"
    assert view.questions == [Asked("r", "r.1/q1", "lead", "Which\n\n  colour?", "")]
    view.apply(answered())
    assert (view.questions, view.shown_state) == ([], "working")
    assert [*remarks(lead)] == ["asked: Which colour?  answer: deep blue"]
    assert view.waits_for(lead) == "waits for an instance of lead"
    view.apply(dispatched("t1", "lead", 2))
    assert task_words(view, lead) == "working  on lead-x  attempt 2"


def test_a_task_that_asks_when_its_run_ends_asks_no_more() -> None:
    view = view_of(asks(), event(run_state=run_pb2.RunStateChanged(state=common_pb2.TASK_STATE_CANCELED), at=120))
    assert (view.questions, view.shown_state, view.tasks["t1"].state) == ([], "canceled", "canceled")
    assert (view.elapsed(500), view.stood(500)) == (10, 10)


def test_the_clock_stands_while_somebody_is_asked_or_the_run_is_paused() -> None:
    view = view_of()
    assert (view.elapsed(107), standing(view, 107)) == (7, "")
    view.apply(asks(at=110))
    assert (view.elapsed(112), view.elapsed(114)) == (10, 10)
    assert standing(view, 114) == "waits for a person; its clock stands, 4.00 s so far"
    view.apply(paused(114))
    assert standing(view, 115) == "waits for a person and is paused; its clock stands, 5.00 s so far"
    view.apply(answered(at=116))
    assert standing(view, 117) == "is paused; its clock stands, 7.00 s so far"
    view.apply(resumed(120))
    assert (view.elapsed(123), standing(view, 123)) == (13, "stood still for 10.0 s")
    view.apply(ended(124))
    assert (view.elapsed(200), standing(view, 200)) == (14, "stood still for 10.0 s")


def test_what_a_paused_run_has_not_given_out_waits_for_it_to_be_resumed() -> None:
    view = view_of(delegated("t1", "cook", "t2"), made("t2", "cook", "t1"), paused(111))
    assert view.waits_for(view.tasks["t2"]) == "waits for the run to be resumed"
    view.apply(resumed(112))
    assert view.waits_for(view.tasks["t2"]) == "waits for an instance of cook"


def test_the_live_tree_shows_the_question_below_its_task_and_what_to_type() -> None:
    from rich.console import Console

    written = StringIO()
    screen, out = TreeScreen(), Console(width=90, file=written)
    for one in [*opening(), delegated("t1", "cook", "t2"), made("t2", "cook", "t1"), dispatched("t2", "cook")]:
        screen._view.apply(one)
    screen._view.apply(asks("t2", 2))
    out.print(screen._tree())
    lines = [line.rstrip() for line in written.getvalue().splitlines()]
    assert lines[0].startswith("run r  input required  10.0 s  waits for a person; its clock stands, ")
    assert [line for line in lines if line.startswith("   ")] == [
        "    └── ? cook           waits for a person's answer",
        *("        ├── Which", "        ├──   colour?"),
        '        └── To answer, from another terminal: archon respond r --question 2/q1 "..."',
    ]


def test_a_long_question_leaves_room_on_the_screen_for_the_run() -> None:
    from rich.console import Console

    written = StringIO()
    screen, out = TreeScreen(), Console(width=90, file=written)
    long = asks()
    long.input_requested.prompt[0].text = "\n".join(f"line {number}" for number in range(100))
    for one in [*opening(), long]:
        screen._view.apply(one)
    out.print(screen._tree())
    lines = written.getvalue().splitlines()
    assert len(lines) < 20
    assert any("…" in line for line in lines)
    assert HOW.partition(": ")[2] in lines[-1]


def run_as_it_stands() -> run_pb2.Run:
    run = run_pb2.Run(run_id="r", state=common_pb2.TASK_STATE_INPUT_REQUIRED)
    run.create_time.seconds = 100
    asking = run.tasks.add(task_id="t1", role="lead", state=common_pb2.TASK_STATE_INPUT_REQUIRED, attempt=1)
    asking.instance_id, asking.waiting_for = "lead-x", "a person's answer"
    asking.start_time.seconds = 101
    run.questions.add(input_id="r.1/q1", role="lead", prompt=[common_pb2.Part(text="Which colour?")])
    return run


def test_show_tells_what_is_asked_in_full_and_that_the_clock_stands() -> None:
    lines = [text for text, _ in run_lines(run_as_it_stands(), 200.0, view_of(asks()), " --orchestrator h:1")]
    assert lines[0] == "run r  input required"
    assert "  clock       waits for a person; its clock stands, 1 m 30 s so far" in lines
    assert lines[-5:] == [
        "└── lead  input required  waits for a person's answer  attempt 1",
        *("", "lead asks:", "  Which colour?", HOW.replace(' "', ' --orchestrator h:1 "')),
    ]


def test_show_needs_no_events_to_say_that_a_run_is_paused_and_asks() -> None:
    run = run_as_it_stands()
    assert "  clock       waits for a person; its clock stands" in [text for text, _ in run_lines(run, 200.0)]
    run.paused = True
    texts = [text for text, _ in run_lines(run, 200.0, RunView())]
    assert "  clock       waits for a person and is paused; its clock stands" in texts


def test_what_is_no_text_is_shown_as_what_it_is() -> None:
    parts = [
        common_pb2.Part(text=" Look: "),
        common_pb2.Part(data_json='{"a": 1}'),
        common_pb2.Part(url="https://example.org/x"),
        common_pb2.Part(raw=b"\x00", media_type="image/png"),
        common_pb2.Part(raw=b"\x00", filename="plan.pdf"),
        common_pb2.Part(raw=b"\x00"),
        common_pb2.Part(),
    ]
    assert words_of(parts) == 'Look:\n{"a": 1}\nhttps://example.org/x\n[image/png]\n[plan.pdf]\n[content]\n[content]'
    assert shortened("word " * 100, 9) == "word word…"


def test_an_id_that_is_not_made_of_its_runs_is_shown_whole() -> None:
    asked = asked_of("r", run_pb2.Question(input_id="other/q1"))
    assert (asked.short_id, asked.command()) == ("other/q1", 'archon respond r --question other/q1 "..."')
