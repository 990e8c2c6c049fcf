"""Questions, pauses and checkpoints in every view."""

from __future__ import annotations

from io import StringIO

import pytest

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.run_view import RunView
from archon.types import RunEvent
from archon.wire import parts_text
from archon_services.cli.render.questions import PendingQuestion, pending_question, truncate
from archon_services.cli.render.run_report import run_report
from archon_services.cli.render.run_screen import JsonScreen, LineScreen, QuietScreen, TreeScreen
from archon_services.cli.render.run_text import clock_text, task_notes, task_text, waiting_text
from tests.unit.services.cli.render.run_events import (
    COMPLETED,
    created,
    delegated,
    dispatched,
    event,
    lines_of,
    opening,
    result,
    view_of,
)

HOW = 'To answer: archon respond r --question 1/q1 "..."'


def asks(task: str = "t1", number: int = 1, at: int = 110, schema_json: str = "") -> run_pb2.RunEvent:
    prompt = [common_pb2.Part(text="Which\n\n  colour?")]
    payload = run_pb2.InputRequested(input_id=f"r.{number}/q1", role="lead", prompt=prompt, schema_json=schema_json)
    return event(task, 1, at, input_requested=payload)


def answered(task: str = "t1", at: int = 115, identity: str = "anonymous") -> run_pb2.RunEvent:
    payload = run_pb2.InputGiven(input_id="r.1/q1", parts=[common_pb2.Part(text="deep\nblue")], identity=identity)
    return event(task, 0, at, input_given=payload)


def paused(at: int, identity: str = "") -> run_pb2.RunEvent:
    return event(at=at, paused=run_pb2.RunPaused(identity=identity))


def resumed(at: int) -> run_pb2.RunEvent:
    return event(at=at, resumed=run_pb2.RunResumed())


def ended(at: int) -> run_pb2.RunEvent:
    return event(at=at, run_state=run_pb2.RunStateChanged(state=COMPLETED))


def test_lines_print_question_command_and_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert lines_of(capsys, asks(), answered(), answered(identity="ann")) == [
        *("lead           question: Which colour?", HOW),
        *("lead           answered: deep blue", "lead           answered by ann: deep blue"),
    ]
    assert lines_of(capsys, asks(schema_json='{"type":\n"integer"}'), flag=" --orchestrator h:1")[1:] == [
        'Answer schema: {"type": "integer"}',
        'To answer: archon respond r --question 1/q1 --orchestrator h:1 "..."',
    ]


def test_lines_print_pauses_and_checkpoints(capsys: pytest.CaptureFixture[str]) -> None:
    saved = run_pb2.CheckpointTaken(size=1234, sequence=1)
    assert lines_of(capsys, event("t1", checkpoint=saved), paused(111), paused(112, "ann"), resumed(113)) == [
        "lead           saved a checkpoint of 1,234 bytes",
        *("run r paused", "run r paused by ann", "run r resumed"),
    ]
    view = view_of(event("t1", checkpoint=saved))
    assert task_text(view, view.tasks["t1"]) == "working  on lead-x  checkpoint of 1,234 bytes"
    view.apply(RunEvent(result("t1", "lead")))
    assert "checkpoint" not in task_text(view, view.tasks["t1"]), "the task has ended"


def test_question_cannot_control_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    evil = event("t1", input_requested=run_pb2.InputRequested(input_id="r.1/a b\x1b", role="lead"))
    evil.input_requested.prompt.add(text="\x1b[2Jhello")
    for screen in (LineScreen(), QuietScreen()):
        for shown in [*opening(), evil]:
            screen.event(shown)
        lines = capsys.readouterr().err
        assert "\x1b" not in lines
        assert "--question '1/a b'" in lines, "quoted for a shell"


def test_quiet_prints_questions_only(capsys: pytest.CaptureFixture[str]) -> None:
    screen = QuietScreen()
    for shown in [*opening(), asks(schema_json="{}"), answered(), paused(116)]:
        screen.event(shown)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines() == ["lead asks:", "Which", "  colour?", "Answer schema: {}", HOW]


def test_json_prints_questions_unchanged(capsys: pytest.CaptureFixture[str]) -> None:
    JsonScreen().event(asks())
    assert '"input_requested": {"input_id": "r.1/q1"' in capsys.readouterr().out


def test_task_and_run_wait_for_input_until_the_answer() -> None:
    view = view_of(asks())
    lead = view.tasks["t1"]
    assert (view.state, lead.state) == ("input required", "input required")
    assert task_text(view, lead) == "waiting for input"
    (question,) = view.questions
    assert pending_question("r", question) == PendingQuestion("r", "r.1/q1", "lead", "Which\n\n  colour?", "")
    view.apply(RunEvent(answered()))
    assert (view.questions, view.state) == ([], "working")
    assert [*task_notes(lead)] == ["question: Which colour?  answer: deep blue"]
    assert waiting_text(view, lead) == "waiting for an instance of lead"
    view.apply(RunEvent(dispatched("t1", "lead", 2)))
    assert task_text(view, lead) == "working  on lead-x  attempt 2"


def test_question_of_an_ended_run_is_not_pending() -> None:
    view = view_of(asks(), event(run_state=run_pb2.RunStateChanged(state=common_pb2.TASK_STATE_CANCELED), at=120))
    assert (view.questions, view.state, view.tasks["t1"].state) == ([], "canceled", "canceled")
    assert (view.elapsed(500), view.stopped_for(500)) == (10, 10)


def test_clock_stops_while_paused_or_waiting_for_input() -> None:
    view = view_of()
    assert (view.elapsed(107), clock_text(view, 107)) == (7, "")
    view.apply(RunEvent(asks(at=110)))
    assert (view.elapsed(112), view.elapsed(114)) == (10, 10)
    assert clock_text(view, 114) == "waiting for input; clock stopped for 4.00 s"
    view.apply(RunEvent(paused(114)))
    assert clock_text(view, 115) == "waiting for input, paused; clock stopped for 5.00 s"
    view.apply(RunEvent(answered(at=116)))
    assert clock_text(view, 117) == "paused; clock stopped for 7.00 s"
    view.apply(RunEvent(resumed(120)))
    assert (view.elapsed(123), clock_text(view, 123)) == (13, "clock was stopped for 10.0 s")
    view.apply(RunEvent(ended(124)))
    assert (view.elapsed(200), clock_text(view, 200)) == (14, "clock was stopped for 10.0 s")


def test_undispatched_task_of_a_paused_run_waits_for_resume() -> None:
    view = view_of(delegated("t1", "cook", "t2"), created("t2", "cook", "t1"), paused(111))
    assert waiting_text(view, view.tasks["t2"]) == "waiting for the run to be resumed"
    view.apply(RunEvent(resumed(112)))
    assert waiting_text(view, view.tasks["t2"]) == "waiting for an instance of cook"


def test_tree_shows_question_and_command_below_the_task() -> None:
    from rich.console import Console

    written = StringIO()
    screen, out = TreeScreen(), Console(width=90, file=written)
    for shown in [*opening(), delegated("t1", "cook", "t2"), created("t2", "cook", "t1"), dispatched("t2", "cook")]:
        screen._view.apply(RunEvent(shown))
    screen._view.apply(RunEvent(asks("t2", 2)))
    out.print(screen._tree())
    lines = [line.rstrip() for line in written.getvalue().splitlines()]
    assert lines[0].startswith("run r  input required  10.0 s  waiting for input; clock stopped for ")
    assert [line for line in lines if line.startswith("   ")] == [
        "    └── ? cook           waiting for input",
        *("        ├── Which", "        ├──   colour?"),
        '        └── To answer from another terminal: archon respond r --question 2/q1 "..."',
    ]


def test_tree_cuts_long_questions() -> None:
    from rich.console import Console

    written = StringIO()
    screen, out = TreeScreen(), Console(width=90, file=written)
    long = asks()
    long.input_requested.prompt[0].text = "\n".join(f"line {number}" for number in range(100))
    for shown in [*opening(), long]:
        screen._view.apply(RunEvent(shown))
    out.print(screen._tree())
    lines = written.getvalue().splitlines()
    assert len(lines) < 20
    assert any("…" in line for line in lines)
    assert HOW.partition(": ")[2] in lines[-1]


def current_run() -> run_pb2.Run:
    run = run_pb2.Run(run_id="r", state=common_pb2.TASK_STATE_INPUT_REQUIRED)
    run.create_time.seconds = 100
    asking = run.tasks.add(task_id="t1", role="lead", state=common_pb2.TASK_STATE_INPUT_REQUIRED, attempt=1)
    asking.instance_id, asking.waiting_for = "lead-x", "input"
    asking.start_time.seconds = 101
    run.questions.add(input_id="r.1/q1", role="lead", prompt=[common_pb2.Part(text="Which colour?")])
    return run


def test_report_prints_question_and_stopped_clock() -> None:
    lines = [text for text, _ in run_report(current_run(), 200.0, view_of(asks()), " --orchestrator h:1")]
    assert lines[0] == "run r  input required"
    assert "  clock       waiting for input; clock stopped for 1 m 30 s" in lines
    assert lines[-5:] == [
        "└── lead  input required  waiting for input  attempt 1",
        *("", "lead asks:", "  Which colour?", HOW.replace(' "', ' --orchestrator h:1 "')),
    ]


def test_report_prints_stopped_clock_without_events() -> None:
    run = current_run()
    assert "  clock       waiting for input; clock stopped" in [text for text, _ in run_report(run, 200.0)]
    run.paused = True
    texts = [text for text, _ in run_report(run, 200.0, RunView())]
    assert "  clock       waiting for input, paused; clock stopped" in texts


def test_other_parts_are_shown_by_name_or_type() -> None:
    parts = [
        common_pb2.Part(text=" Look: "),
        common_pb2.Part(data_json='{"a": 1}'),
        common_pb2.Part(url="https://example.org/x"),
        common_pb2.Part(raw=b"\x00", media_type="image/png"),
        common_pb2.Part(raw=b"\x00", filename="plan.pdf"),
        common_pb2.Part(raw=b"\x00"),
        common_pb2.Part(),
    ]
    assert parts_text(parts) == 'Look:\n{"a": 1}\nhttps://example.org/x\n[image/png]\n[plan.pdf]\n[content]\n[content]'
    assert truncate("word " * 100, 9) == "word word…"


def test_id_without_the_prefix_of_its_run_is_unchanged() -> None:
    question = pending_question("r", run_pb2.Question(input_id="other/q1"))
    assert (question.short_id, question.command()) == ("other/q1", 'archon respond r --question other/q1 "..."')
