"""Tasks of A2A agents, folded from their events."""

from __future__ import annotations

import pytest
from a2a.types import a2a_pb2

from archon.errors import ResourceExhausted
from archon_services.agents.a2a.folded_task import FoldedTask

STATES = a2a_pb2.TaskState


def artifact(text: str, *, append: bool = False, name: str = "a") -> a2a_pb2.StreamResponse:
    content = a2a_pb2.Artifact(artifact_id=name, parts=[a2a_pb2.Part(text=text)])
    update = a2a_pb2.TaskArtifactUpdateEvent(task_id="t", context_id="c", artifact=content, append=append)
    return a2a_pb2.StreamResponse(artifact_update=update)


def status(state: a2a_pb2.TaskState) -> a2a_pb2.StreamResponse:
    update = a2a_pb2.TaskStatusUpdateEvent(task_id="t", context_id="c", status=a2a_pb2.TaskStatus(state=state))
    return a2a_pb2.StreamResponse(status_update=update)


def test_pieces_of_an_artifact_are_one_text_and_written_once() -> None:
    written: list[str] = []
    folded = FoldedTask(written.append)
    for event in (artifact("one "), artifact("two", append=True), artifact("three", name="b")):
        folded.apply(event)
    assert [part.text for part in folded.answer()] == ["one two", "three"] and written == ["one ", "two", "three"]


def test_an_artifact_that_begins_anew_replaces_the_pieces() -> None:
    folded = FoldedTask(lambda text: None)
    for event in (artifact("wrong"), artifact("right")):
        folded.apply(event)
    assert [part.text for part in folded.answer()] == ["right"]


def test_a_state_from_before_the_message_does_not_settle() -> None:
    folded = FoldedTask(lambda text: None)
    settled = []
    folded.apply(status(STATES.TASK_STATE_INPUT_REQUIRED))
    settled.append(folded.settled)
    folded.expect()
    settled.append(folded.settled)
    folded.apply(status(STATES.TASK_STATE_COMPLETED))
    assert [*settled, folded.settled] == [True, False, True]
    assert folded.ended


def test_a_message_alone_is_the_answer() -> None:
    folded = FoldedTask(lambda text: None)
    folded.apply(a2a_pb2.StreamResponse(message=a2a_pb2.Message(parts=[a2a_pb2.Part(text="hi")])))
    assert folded.settled and not folded.task_id and folded.answer()[0].text == "hi"


def test_artifacts_of_an_endless_agent_are_bounded() -> None:
    folded = FoldedTask(lambda text: None)
    with pytest.raises(ResourceExhausted, match="at most"):
        for _ in range(6):
            folded.apply(artifact("x" * 1_000_000, append=True))
