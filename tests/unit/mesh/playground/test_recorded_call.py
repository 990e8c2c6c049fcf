"""Recorded model calls: found by task and number, and read as requests."""

from __future__ import annotations

import pytest

from archon.errors import FailedPrecondition, InvalidArgument, NotFound
from archon_mesh.playground import find_call, recorded_calls
from tests.fixtures.recorded_calls import model_record

USER = {"role": "user", "content": "Draw."}
CALLS = recorded_calls(
    [
        model_record(USER, role="lead", task="aa1"),
        model_record(USER, role="coder", task="bb1"),
        model_record(USER, role="lead", task="aa1", attempt=2),
        model_record(USER, role="coder", task="bb2"),
        model_record(USER, role="lead", task="aa1", attempt=2, reply={"error": {"message": "down"}, "text": ""}),
    ]
)


@pytest.mark.parametrize(
    ("task", "number", "position"),
    [
        ("lead", None, 4),
        ("lead", 1, 0),
        ("lead", 2, 2),
        ("lead", -3, 0),
        ("aa", 2, 2),
        ("bb2", None, 3),
        ("draw", 1, 1),
    ],
)
def test_a_call_is_found_by_task_and_number(task: str, number: int | None, position: int) -> None:
    assert find_call(CALLS, task, number, {"draw": "bb1"}) is CALLS[position]


@pytest.mark.parametrize(
    ("task", "number", "error", "words"),
    [
        ("coder", None, InvalidArgument, "2 tasks are named 'coder': name one of bb1"),
        ("", None, InvalidArgument, "3 tasks have model calls"),
        ("cook", None, NotFound, "recorded of lead, coder"),
        ("lead", 4, NotFound, "lead has 3 recorded model calls: there is no call 4"),
        ("lead", -4, NotFound, "there is no call -4"),
    ],
)
def test_an_unclear_call_is_refused(task: str, number: int | None, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        find_call(CALLS, task, number)


def test_a_run_without_model_calls_is_refused() -> None:
    with pytest.raises(NotFound, match="no model calls are recorded"):
        find_call([])


def test_calls_count_over_the_attempts_of_their_task() -> None:
    assert [(call.role, call.number, call.task_calls) for call in CALLS] == [
        ("lead", 1, 3),
        ("coder", 1, 1),
        ("lead", 2, 3),
        ("coder", 1, 1),
        ("lead", 3, 3),
    ]
    assert CALLS[4].reply is None and CALLS[4].failure == "down"


def test_a_request_is_read_as_it_was_made() -> None:
    function = {"name": "look", "arguments": '{"at": 1}'}
    record = model_record(
        {"role": "system", "content": "Be brief."},
        USER,
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "type": "function", "function": function}]},
        {"role": "tool", "content": "a door", "tool_call_id": "c"},
        tools=[
            {"type": "function", "function": {"name": "look", "description": "d", "parameters": {"type": "object"}}}
        ],
        temperature=0.5,
        max_tokens=9,
        is_json=True,
        output_schema={"type": "object"},
    )
    request = recorded_calls([record])[0].request
    assert [message.role for message in request.messages] == ["system", "user", "assistant", "tool"]
    assert request.messages[2].tool_calls[0].arguments_json == '{"at": 1}'
    assert (request.messages[3].tool_call_id, request.tools[0].name) == ("c", "look")
    assert (request.temperature, request.max_tokens, request.is_json) == (0.5, 9, True)
    assert request.output_schema == {"type": "object"}


@pytest.mark.parametrize(
    ("message", "error", "words"),
    [
        ({"role": "user", "content": {"redacted": {"chars": 3}}}, FailedPrecondition, "message 1 were not recorded"),
        ({"role": "judge", "content": "x"}, InvalidArgument, "message 1 has the role 'judge'"),
        ({"role": "user", "content": 5}, InvalidArgument, "message 1 has a content that is no text"),
        ({"role": "user", "content": "x", "tool_calls": 5}, InvalidArgument, "tool_calls is no list"),
        ({"role": "user", "content": "x", "files": [{"name": "a.png", "bytes": 3}]}, FailedPrecondition, "a.png"),
    ],
)
def test_a_request_that_cannot_be_repeated_says_why(
    message: dict[str, object], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        _ = recorded_calls([model_record(message)])[0].request


def test_a_request_that_was_left_out_says_so() -> None:
    record = model_record(USER)
    record.proto.request_json = '{"archon.dev/left-out": "9 bytes, too large to record"}'
    with pytest.raises(FailedPrecondition, match="was not recorded"):
        _ = recorded_calls([record])[0].request
