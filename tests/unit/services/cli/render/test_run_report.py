"""The report of a run."""

from __future__ import annotations

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.run_view import RunView
from archon.types import ChildRun, RunEvent
from archon_services.cli.render.run_report import goal_text, run_report

WORKING = common_pb2.TASK_STATE_WORKING


def waiting_run() -> run_pb2.Run:
    """A run whose first task is in its second attempt after a failure, and whose second task waits for it."""
    run = run_pb2.Run(run_id="r1", state=WORKING, goal=[common_pb2.Part(text="Make\n\nit blue.")])
    run.create_time.seconds = 100
    run.edges.add(upstream="requirements", downstream="designer")
    first = run.tasks.add(role="requirements", state=WORKING, attempt=2, instance_id="requirements-a")
    first.start_time.seconds = 101
    first.failure.message = "it was lost"
    run.tasks.add(role="designer", state=common_pb2.TASK_STATE_SUBMITTED, waiting_for="the answer of requirements")
    return run


def test_tasks_have_attempt_instance_time_and_wait_reason() -> None:
    lines = list(run_report(waiting_run(), now=104.0))
    texts = [text for text, _ in lines]
    assert lines[0] == ("run r1  working", "working")
    assert "  goal        Make it blue." in texts
    assert any(text.endswith("4.00 s ago") for text in texts)
    assert "├── requirements  working  on requirements-a  attempt 2  3.00 s" in texts
    assert ("│     it was lost", "failed") in lines
    assert texts[-1] == "└── designer      submitted  waiting for the answer of requirements  after requirements"
    assert not any(text.startswith(("  tokens", "  session", "  failure")) for text in texts)


def test_report_has_usage_failure_and_metadata() -> None:
    run = run_pb2.Run(run_id="r1", state=common_pb2.TASK_STATE_FAILED, session_id="blue", metadata={"by": "me"})
    run.usage.input_tokens, run.usage.output_tokens, run.usage.estimated = 1200, 34, True
    run.usage.cached_input_tokens = 960
    run.failure.message = "its time is over"
    run.create_time.seconds, run.end_time.seconds = 100, 160
    texts = [text for text, _ in run_report(run, now=1_000.0)]
    for line in (
        "  tokens      ~1,200 in (80 % cached), ~34 out",
        "  session     blue",
        "  failure     its time is over",
    ):
        assert line in texts
    assert "  metadata by  me" in texts
    assert any(text.endswith("ended after 1 m 00 s") for text in texts)


def test_long_goal_is_cut_and_other_parts_are_named() -> None:
    parts = [
        common_pb2.Part(text="word " * 100),
        common_pb2.Part(raw=b"\x00", media_type="image/png"),
        common_pb2.Part(text="x", filename="brief.md"),
    ]
    assert goal_text(parts, length=20) == "word word word word…"
    assert goal_text(parts, length=1000).endswith(" [image/png] [brief.md] x")
    assert goal_text([]) == ""


def test_a_task_that_was_a_run_of_another_mesh_names_it() -> None:
    run = waiting_run()
    run.tasks[0].task_id = "r1.1"
    view = RunView()
    result = run_pb2.ResultReceived(role="requirements", state=common_pb2.TASK_STATE_COMPLETED)
    result.metadata.update(ChildRun("research", "c1").metadata)
    event = run_pb2.RunEvent(run_id="r1", seq=1, task=common_pb2.TaskRef(task_id="r1.1", attempt=2), result=result)
    view.apply(RunEvent(event))
    assert view.tasks["r1.1"].child_run == ChildRun("research", "c1")
    texts = [text for text, _ in run_report(run, now=104.0, view=view)]
    assert any("run c1 of the mesh research" in text for text in texts)
