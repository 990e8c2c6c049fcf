"""Checks of a ForkRun request before the run is read."""

from __future__ import annotations

import pytest

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.errors import InvalidArgument, MessageTooLarge
from archon.wire import MAX_CHECKED_BYTES
from archon_services.orchestrator.api.fork import MAX_CHANGES, MAX_INPUTS, _check


def answer(text: str = "x") -> pb.EditedAnswer:
    return pb.EditedAnswer(task="a", parts=[common_pb2.Part(text=text)])


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (pb.ForkRunRequest(rerun=["a"] * (MAX_CHANGES + 1)), f"rerun: more than {MAX_CHANGES}"),
        (pb.ForkRunRequest(edited_answers=[answer()] * (MAX_CHANGES + 1)), f"edited_answers: more than {MAX_CHANGES}"),
        (
            pb.ForkRunRequest(edited_inputs=[pb.EditedInput(task="a", text="x")] * (MAX_INPUTS + 1)),
            f"edited_inputs: more than {MAX_INPUTS}",
        ),
        (pb.ForkRunRequest(edited_answers=[answer(" ")]), "edited_answers: the answer of a is empty"),
        (pb.ForkRunRequest(edited_inputs=[pb.EditedInput(task="a")]), "edited_inputs: the input of a is empty"),
        (pb.ForkRunRequest(after_seq=-1), "after_seq: must not be negative"),
    ],
)
def test_a_fork_with_too_many_changes_is_refused(request_: pb.ForkRunRequest, text: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        _check(request_)
    assert (str(refused.value), len(refused.value.field_violations)) == (text, 1)


def test_a_fork_with_a_large_answer_is_refused() -> None:
    with pytest.raises(MessageTooLarge):
        _check(pb.ForkRunRequest(edited_answers=[answer("x" * MAX_CHECKED_BYTES)]))
