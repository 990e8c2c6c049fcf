"""The fold of a run into the events of AG-UI, where a mesh would have to lose processes."""

from __future__ import annotations

from typing import Any

import pytest
from ag_ui.core import BaseEvent, RunAgentInput

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.errors import InvalidArgument
from archon.run_view import RunView
from archon.types.run import Run
from archon.types.run_event import RunEvent
from archon_services.gateway.agui.inputs import read_input
from archon_services.gateway.agui.run_fold import RunFold
from archon_services.gateway.agui.stream import frames
from archon_services.gateway.agui.task_state_document import MAX_TASKS, TaskStateDocument


class Story:
    """A run of the role `a`, told event by event."""

    def __init__(self) -> None:
        source = RunAgentInput.model_validate(
            {
                "threadId": "t",
                "runId": "r",
                "protocolVersion": "1.0",
                "messages": [{"id": "m", "role": "user", "content": "x"}],
            }
        )
        self.fold = RunFold(source, Run(run_pb2.Run(run_id="run")))
        self.seq = 0
        self.tell(submitted=run_pb2.Submitted(strategy=run_pb2.STRATEGY_AGENT, roles=["a"]))
        self.tell("t1", task_state=run_pb2.TaskStateChanged(role="a", state=common_pb2.TASK_STATE_SUBMITTED))

    def tell(self, task_id: str = "", attempt: int = 0, *, durable: bool = True, **content: Any) -> list[BaseEvent]:
        self.seq += durable
        event = run_pb2.RunEvent(run_id="run", seq=self.seq if durable else 0, **content)
        event.time.FromSeconds(1_000 + self.seq)
        if task_id:
            event.task.task_id, event.task.attempt = task_id, attempt
        return self.fold.apply(RunEvent(event))

    def dispatch(self, attempt: int) -> list[BaseEvent]:
        return self.tell("t1", attempt, dispatched=run_pb2.Dispatched(role="a", instance_id="i"))

    def write(self, attempt: int, offset: int, text: str) -> list[BaseEvent]:
        return self.tell("t1", attempt, durable=False, text_delta=run_pb2.TextDelta(role="a", offset=offset, text=text))

    def answer(self, attempt: int, text: str) -> list[BaseEvent]:
        result = run_pb2.ResultReceived(
            role="a", state=common_pb2.TASK_STATE_COMPLETED, output=[common_pb2.Part(text=text)]
        )
        return self.tell("t1", attempt, result=result)


def shown(events: list[BaseEvent]) -> list[str]:
    return [event.type.value for event in events if not event.type.value.startswith("STATE_")]


def test_a_lost_attempt_withdraws_its_text() -> None:
    story = Story()
    story.dispatch(1)
    assert shown(story.write(1, 0, "half")) == ["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT"]
    lost = story.tell("t1", 1, lost=run_pb2.Lost(instance_id="i"))
    assert shown(lost) == ["TEXT_MESSAGE_END", "MESSAGES_SNAPSHOT", "CUSTOM"]
    [snapshot] = [event for event in lost if event.type.value == "MESSAGES_SNAPSHOT"]
    assert [message.id for message in snapshot.messages] == ["m"]  # type: ignore[attr-defined]
    assert shown(story.dispatch(2)) == []
    assert story.write(1, 4, " more") == []  # of the attempt that was lost
    whole = story.answer(2, "whole")
    assert shown(whole) == ["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "STEP_FINISHED"]


def test_a_piece_that_was_lost_comes_with_the_answer() -> None:
    story = Story()
    story.dispatch(1)
    story.write(1, 0, "one ")
    assert story.write(1, 8, "three ") == []
    text = [event.delta for event in story.answer(1, "one two three") if event.type.value == "TEXT_MESSAGE_CONTENT"]  # type: ignore[attr-defined]
    assert text == [" two three"]


def test_a_call_without_a_result_gets_one_at_the_end() -> None:
    story = Story()
    story.dispatch(1)
    activity = run_pb2.ToolActivity(role="a", call_id="c", tool_name="look", arguments_json="{}")
    piece = run_pb2.ToolArgumentsDelta(role="a", call_id="c", tool_name="look", text="{")
    assert shown(story.tell("t1", 1, durable=False, tool_arguments_delta=piece)) == ["TOOL_CALL_START"]
    assert shown(story.tell("t1", 1, durable=False, tool_event=activity)) == ["TOOL_CALL_ARGS", "TOOL_CALL_END"]
    assert shown(story.answer(1, "done"))[0] == "TOOL_CALL_RESULT"


def test_the_state_holds_a_bounded_number_of_tasks() -> None:
    view = RunView()
    document = TaskStateDocument({})
    document.snapshot(view)
    operations = 0
    for number in range(1, MAX_TASKS + 50):
        event = run_pb2.RunEvent(run_id="run", seq=number)
        event.task.task_id = f"t{number}"
        event.result.state, event.result.role = common_pb2.TASK_STATE_COMPLETED, "a"
        view.apply(RunEvent(event))
        for delta in document.changes(view, view.tasks[f"t{number}"]):
            operations += sum(change.op == "add" for change in delta.delta)  # type: ignore[attr-defined]
            operations -= sum(change.op == "remove" for change in delta.delta)  # type: ignore[attr-defined]
    assert operations == MAX_TASKS
    [snapshot] = document.snapshot(view)
    assert len(snapshot.snapshot["archon"]["tasks"]) == MAX_TASKS  # type: ignore[attr-defined]


def test_a_frame_holds_any_text_in_one_line() -> None:
    story = Story()
    story.dispatch(1)
    frame = frames(story.write(1, 0, "a\n\nb\r\u2028data: c"), 7)
    assert frame.count(b"\n\n") == 2 and b"\r" not in frame  # two events
    assert frame.rindex(b"id: 7\n") > 0


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b"\xff",
        b"{" * 5_000,
        b'{"messages": {}}',
        b'{"threadId": "t", "runId": "r", "messages": [], "state": {"a": "\\uD800"}}',
        b'{"messages": [1, {"content": [1]}]}',
    ],
)
def test_a_body_that_is_no_input_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidArgument):
        read_input(body)


def test_a_refusal_does_not_quote_the_input() -> None:
    with pytest.raises(InvalidArgument) as raised:
        read_input(b'{"threadId": "t", "runId": "r", "messages": [], "resume": [{"interruptId": {"a": "my-secret"}}]}')
    assert "my-secret" not in f"{raised.value}{raised.value.field_violations}"
