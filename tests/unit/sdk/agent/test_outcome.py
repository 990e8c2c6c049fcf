"""The result of a handler on the wire, and the data of earlier attempts that a task receives."""

from __future__ import annotations

from typing import Any

import pytest

from archon.agent import Answer, Question, TaskContext
from archon.agent.result import to_result
from archon.agent.values import MAX_CHECKPOINT
from archon.api.agent.v1 import agent_pb2, session_pb2
from archon.api.common.v1 import common_pb2
from archon.errors import ArchonError, FrameTooLarge
from archon.types import Part, Usage
from archon.types.part import to_parts
from tests.fixtures.fake_link import FakeLink


def task_of(attempt: int = 1, sent: list[session_pb2.AgentFrame] | None = None, **resume: Any) -> TaskContext:
    assigned = agent_pb2.AssignTask(input=[common_pb2.Part(text="x")])
    if resume:
        assigned.resume.MergeFrom(agent_pb2.Resume(**resume))
    ref = common_pb2.TaskRef(task_id="t", run_id="r", attempt=attempt, epoch=1)
    return TaskContext.from_proto(ref, assigned, FakeLink([] if sent is None else sent), role="clerk")


def spend(task: TaskContext, tokens: int) -> None:
    usage = Usage(input_tokens=tokens)
    task.record_model_call("m", {}, {}, started=0.0, seconds=0.0, usage=usage)


def test_contract_rule_7_a_question_is_a_complete_result() -> None:
    task = task_of()
    spend(task, 7)
    plan = Part(url="https://example.org/plan", media_type="text/html")
    question = Question("go on?", schema_json='{"enum": ["yes"]}', checkpoint=b"page 7", input_id="go-on", parts=[plan])
    result = to_result(task, question)
    assert result.state == common_pb2.TASK_STATE_INPUT_REQUIRED
    assert [part.WhichOneof("content") for part in result.input_request.prompt] == ["url", "text"], (
        "parts precede the text"
    )
    assert result.input_request.prompt[1].text == "go on?"
    assert (result.input_request.input_id, result.input_request.schema_json) == ("go-on", '{"enum": ["yes"]}')
    assert result.checkpoint == b"page 7"
    assert (result.usage.input_tokens, result.usage.model_calls) == (7, 1)
    assert not result.output
    assert not result.HasField("failure")


@pytest.mark.parametrize("attempt", [1, 2, 17])
def test_a_question_without_an_id_has_one_for_each_attempt(attempt: int) -> None:
    assert to_result(task_of(attempt), Question("?")).input_request.input_id == f"q{attempt}"


def test_a_question_of_parts_alone_has_no_empty_text() -> None:
    result = to_result(task_of(), Question(parts=[Part(text="only this")]))
    assert [part.text for part in result.input_request.prompt] == ["only this"]


def test_a_question_with_a_lone_surrogate_is_cleaned() -> None:
    assert to_result(task_of(), Question("is it \ud800?")).input_request.prompt[0].text == "is it ??"


def test_a_checkpoint_above_a_mebibyte_is_refused() -> None:
    largest = bytes(MAX_CHECKPOINT)
    assert to_result(task_of(), Question("?", checkpoint=largest)).checkpoint == largest
    with pytest.raises(FrameTooLarge, match="1,048,577 bytes is larger than the limit of 1,048,576"):
        to_result(task_of(), Question("?", checkpoint=largest + b"x"))


@pytest.mark.parametrize("returned", [1, b"bytes", ["a"], Question])
def test_another_return_type_is_refused_by_name(returned: object) -> None:
    with pytest.raises(ArchonError, match=rf"clerk returned {type(returned).__name__}, not str, Answer or Question"):
        to_result(task_of(), returned)


def test_text_none_and_answers_become_results() -> None:
    assert to_result(task_of(), "text").output[0].text == "text"
    assert not to_result(task_of(), None).output
    assert to_result(task_of(), Answer("text", publish=False)).no_publish


def test_a_task_sees_peoples_answers_and_the_checkpoint() -> None:
    answers = [common_pb2.Part(text="blue"), common_pb2.Part(data_json="7"), common_pb2.Part(text="round")]
    task = task_of(2, checkpoint=b"page 7", inputs=answers)
    assert task.inputs == to_parts(answers)
    assert (task.input_text, task.checkpoint) == ("blue\n\n7\n\nround", b"page 7")


def test_a_first_attempt_has_no_answers_and_no_checkpoint() -> None:
    task = task_of()
    assert (list(task.inputs), task.input_text, task.checkpoint) == ([], "", b"")


def test_save_sends_bytes_unchanged_up_to_a_mebibyte() -> None:
    sent: list[session_pb2.AgentFrame] = []
    task = task_of(sent=sent)
    for size in (0, 1, MAX_CHECKPOINT):
        task.save(bytes(size))
    assert [len(frame.checkpoint.data) for frame in sent] == [0, 1, MAX_CHECKPOINT]
    with pytest.raises(FrameTooLarge, match="1,048,577 bytes"):
        task.save(bytes(MAX_CHECKPOINT + 1))
    assert len(sent) == 3


async def test_a_delegation_with_a_too_large_checkpoint_is_refused() -> None:
    with pytest.raises(FrameTooLarge, match="1,048,577 bytes is larger than the limit of 1,048,576"):
        await task_of().delegate("x", role="cook", checkpoint=bytes(MAX_CHECKPOINT + 1))


@pytest.mark.parametrize(("mode", "recorded"), [("full", True), ("redacted", False), ("ful", False)])
def test_contents_are_recorded_only_in_full(mode: str, recorded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARCHON_RECORDS", mode)
    task = task_of()
    task.record_model_call("m", {"q": "secret"}, "secret", started=0.0, seconds=0.0, usage=Usage())
    task.record_tool_call("t", {"q": "secret"}, "secret", started=0.0, seconds=0.0)
    model, tool = task.take_records()
    texts = [model.request_json, model.response_json, tool.request_json, tool.response_json]
    assert ["secret" in text for text in texts] == [recorded] * 4
    assert ['"hash":' in text for text in texts] == [not recorded] * 4


def test_nothing_is_recorded_if_records_are_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARCHON_RECORDS", "off")
    task = task_of()
    spend(task, 7)
    assert (task.take_records(), task.usage.input_tokens) == ([], 7)
