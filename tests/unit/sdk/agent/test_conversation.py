"""A coordinator resumes its messages from a checkpoint after the death of its process, without repeating calls."""

from __future__ import annotations

import json

import pytest

from archon.api.agent.v1 import agent_pb2
from archon.errors import Unavailable
from archon_mesh.core.messages import ChatMessage, ToolCall
from archon_mesh.llm import ScriptedModel
from archon_mesh.node import role_handler
from archon_mesh.node.checkpoint import MAX_CHECKPOINT, decode_checkpoint, encode_checkpoint
from tests.fixtures.scripted_model import says
from tests.unit.sdk.agent.test_coordinate import LEAD, Task, call


def resumed(checkpoint: bytes) -> Task:
    return Task(resume=agent_pb2.Resume(checkpoint=checkpoint))


async def test_a_later_attempt_repeats_its_calls_and_continues() -> None:
    first = Task({"cook": "Soup.", "fire-brigade": Unavailable("lost")})
    whole = ScriptedModel(
        [
            says("The cook.", call("cook", 1)),
            says("Both.", call("fire-brigade", 2), call("cook", 3)),
            Unavailable("the process dies here"),
        ],
    )
    with pytest.raises(Unavailable):
        await role_handler(LEAD, whole)(first)
    _, last, empty = first.checkpoints
    assert not empty, "the calls of a reply need one checkpoint"
    second = resumed(last)
    rest = ScriptedModel([says("Done.")])
    assert (await role_handler(LEAD, rest)(second)).text == "Done."
    assert (second.delegations, second.keys) == (first.delegations[1:], first.keys[1:])
    assert second.checkpoints == [last, b""], "the messages have not changed since"
    assert len(rest.requests) == 1
    assert rest.requests[0].messages[:-2] == whole.requests[2].messages[:-2]
    assert [message.content for message in rest.requests[0].messages[-2:]] == ["Out.", "Soup."]


async def test_the_same_call_in_another_place_is_another_delegation() -> None:
    task = Task()
    await role_handler(
        LEAD, ScriptedModel([says("", call("cook"), call("cook", 2)), says("", call("cook")), says("x")])
    )(task)
    assert len(set(task.keys)) == 3
    changed = Task()
    await role_handler(LEAD, ScriptedModel([says("", call("cook", 1, '{"task": "Else."}')), says("x")]))(changed)
    assert changed.keys[0] not in task.keys, "a call with other arguments has another memo key"


async def test_the_first_call_that_can_be_made_carries_the_checkpoint() -> None:
    task = Task()
    await role_handler(LEAD, ScriptedModel([says("", call("painter", 1), call("cook", 2)), says("x")]))(task)
    assert [bool(checkpoint) for checkpoint in task.checkpoints] == [True]


def test_a_conversation_is_restored_as_it_was_saved() -> None:
    turns = [
        ChatMessage(
            "assistant", "a \ud800 surrogate", tool_calls=(ToolCall("1", "cook", "{"), ToolCall("2", "cook", ""))
        ),
        ChatMessage("tool", "Soup.", tool_call_id="1"),
        ChatMessage("tool", "", tool_call_id="2"),
        ChatMessage("assistant", "", tool_calls=(ToolCall("3", "cook", "{}"),)),
    ]
    assert decode_checkpoint(encode_checkpoint(turns)) == turns


@pytest.mark.parametrize(
    "checkpoint",
    [
        b"",
        b"\xff",
        b"[]",
        b"7",
        b"{}",
        b'{"form": "archon-conversation/1"}',
        b'{"form": "archon-conversation/1", "messages": []}',
        b'{"form": "archon-conversation/1", "messages": [{"role": "assistant"}]}',
        b'{"form": "archon-conversation/1", "messages": [7]}',
        json.dumps({"form": "archon-conversation/2", "messages": [{"role": "assistant"}]}).encode(),
        encode_checkpoint([ChatMessage("assistant", "no calls")]),
    ],
)
async def test_a_checkpoint_of_another_form_is_ignored(checkpoint: bytes) -> None:
    model = ScriptedModel([says("Anew.")])
    assert (await role_handler(LEAD, model)(resumed(checkpoint))).text == "Anew."


def test_a_conversation_that_is_too_long_leaves_no_checkpoint() -> None:
    def asking(text: str) -> list[ChatMessage]:
        return [ChatMessage("assistant", text, tool_calls=(ToolCall("1", "cook", "{}"),))]

    assert encode_checkpoint(asking("x" * (MAX_CHECKPOINT - 200)))
    assert not encode_checkpoint(asking("x" * MAX_CHECKPOINT))
