"""The tools that a front end offers, as metadata of its run."""

from __future__ import annotations

from typing import Any

import pytest
from ag_ui.core import RunAgentInput

from archon.errors import FrontEndToolsRefused, InvalidArgument
from archon_mesh.core.front_end_tools import MAX_PARTS, from_answer, from_metadata, from_subject, to_answer_json
from archon_services.gateway.agui.front_end_tools import metadata_of, results_of

COLOUR = {"name": "set_colour", "description": "Colours.", "parameters": {"properties": {"colour": {}}}}


def source(*tools: dict[str, Any], messages: Any = ()) -> RunAgentInput:
    fields = {"state": {}, "context": [], "forwardedProps": {}, "messages": list(messages), "tools": list(tools)}
    return RunAgentInput.model_validate({"threadId": "t", "runId": "r", **fields})


def test_tools_are_read_back_from_the_metadata_of_their_run() -> None:
    large = {**COLOUR, "name": "large", "description": "\u00fc" * 5_000}
    metadata = metadata_of(source(COLOUR, large, {"name": "bare", "description": ""}), own=())
    assert 2 < len(metadata) <= MAX_PARTS
    first, second, bare = from_metadata(metadata)
    assert (first.name, first.parameters["type"]) == ("set_colour", "object")
    assert (second.description, bare.parameters) == ("\u00fc" * 5_000, {"type": "object", "properties": {}})


@pytest.mark.parametrize(
    ("tools", "field"),
    [
        ([{**COLOUR, "name": "no name"}], "tools.0"),
        ([COLOUR, COLOUR], "tools.1"),
        ([{**COLOUR, "parameters": {"type": "string"}}], "tools.0.parameters"),
        ([{**COLOUR, "parameters": [1]}], "tools.0.parameters"),
    ],
)
def test_a_tool_that_no_model_takes_is_refused(tools: list[Any], field: str) -> None:
    with pytest.raises(InvalidArgument) as raised:
        metadata_of(source(*tools), own=())
    assert [each.field for each in raised.value.field_violations] == [field]


def test_tools_too_large_or_with_names_of_the_agent_are_refused() -> None:
    with pytest.raises(FrontEndToolsRefused, match="characters"):
        metadata_of(source({**COLOUR, "description": "x" * 60_000}), own=())
    with pytest.raises(FrontEndToolsRefused, match="set_colour"):
        metadata_of(source(COLOUR), own=["set_colour"])


@pytest.mark.parametrize(
    "metadata", [{}, {"dev.archon/front-end-tools.0": "{"}, {"dev.archon/front-end-tools.0": "[1]"}]
)
def test_metadata_of_others_offers_nothing(metadata: dict[str, str]) -> None:
    assert from_metadata(metadata) == []


def test_results_before_a_message_of_the_user_are_history() -> None:
    result = {"id": "1", "role": "tool", "toolCallId": "r.1/front-end:t1", "content": "done"}
    foreign = {"id": "2", "role": "tool", "toolCallId": "call_7", "content": "done"}
    user = {"id": "3", "role": "user", "content": "and?"}
    assert list(results_of(source(messages=[user, result, foreign]))) == ["r.1/t1"]
    assert results_of(source(messages=[result, user])) == {}


@pytest.mark.parametrize("text", ["yes", "3", '{"size": 3}', '{"result": 3}', "[", ""])
def test_an_answer_of_a_person_is_a_result(text: str) -> None:
    assert from_answer(text) == (text, "")


def test_an_answer_is_a_result_or_an_error() -> None:
    assert from_answer(to_answer_json("3")) == ("3", "")
    assert from_answer(to_answer_json("", "no paint")) == ("", "no paint")
    assert from_subject({"tool": "pay", "arguments": {}}) is None
