"""Records without contents: ARCHON_RECORDS=redacted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from archon.agent import TaskContext
from archon.agent.redaction import RecordMode, record_mode, redacted_text
from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import common_pb2
from archon.errors import Unavailable
from archon_mesh.agent import Agent
from archon_mesh.core.media import Media
from archon_mesh.core.messages import PROVIDER_STATE, ChatMessage, ToolCall
from archon_mesh.llm import ModelReply, ModelRequest, ScriptedModel, Usage
from archon_mesh.node import agent_handler
from archon_mesh.node.call_records import request_json, response_json, tool_json
from archon_mesh.tools import FunctionTool
from archon_mesh.tools.result import ToolResult
from tests.fixtures.fake_link import FakeLink
from tests.fixtures.media import PNG

SECRET = "the safe opens with swordfish"


@pytest.fixture(autouse=True)
def _redacted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARCHON_RECORDS", "redacted")


def whisper(word: str) -> str:
    """Whispers the secret: swordfish."""
    return f"{SECRET}, {word}"


def task_of(text: str) -> TaskContext:
    assigned = agent_pb2.AssignTask(input=[common_pb2.Part(text=text)])
    item = assigned.context.add(parts=[common_pb2.Part(text=f"Shared: {SECRET}")])
    item.ref.role, item.ref.version = "baker", 4
    return TaskContext.from_proto(common_pb2.TaskRef(task_id="t", attempt=1), assigned, FakeLink([]), role="cook")


async def recorded(*replies: Any) -> tuple[list[dict[str, Any]], str]:
    """Returns the requests and responses of a task's calls, and all that was recorded as one text."""
    agent = Agent("cook", system_prompt=SECRET, model=ScriptedModel(replies), tools=[FunctionTool(whisper)], retries=0)
    task = task_of(SECRET)
    try:
        await agent_handler(agent)(task)
    except Unavailable:
        pass
    records = task.take_records()
    texts = [text for record in records for text in (record.request_json, record.response_json)]
    return [json.loads(text) for text in texts], " ".join(texts)


async def test_no_content_of_a_task_is_recorded() -> None:
    values, text = await recorded(ToolCall("c1", "whisper", json.dumps({"word": SECRET})), f"It is: {SECRET}")
    assert "swordfish" not in text and "safe" not in text and "Whispers" not in text and "word" not in text
    first, reply, arguments, result, second, _ = values
    assert [message["role"] for message in second["messages"]] == ["system", "system", "user", "assistant", "tool"]
    assert second["origins"][1] == {"kind": "shared_context", "role": "baker", "version": 4}
    assert first["tools"][0]["function"]["name"] == "whisper"
    assert reply["tool_calls"][0]["id"] == "c1" and reply["usage"]["input_tokens"] > 0
    assert (result["status"], set(result["content"]["redacted"])) == ("success", {"chars", "tokens", "hash"})
    assert arguments["redacted"]["chars"] == len(json.dumps({"word": SECRET}, separators=(",", ":")))


async def test_no_content_of_a_failed_call_is_recorded() -> None:
    values, text = await recorded(Unavailable(f"cannot read {SECRET!r}"))
    assert "swordfish" not in text
    assert values[1]["error"]["code"] == "UNAVAILABLE"
    assert values[1]["error"]["message"]["redacted"]["chars"] > 0


def test_thinking_that_goes_back_to_the_provider_is_removed() -> None:
    message = ChatMessage("assistant", "x", metadata={PROVIDER_STATE: {"thinking": SECRET}})
    data = request_json("m", ModelRequest((message,), temperature=0.5, max_tokens=9), [{"kind": "step"}])
    assert data == {
        "model": "m",
        "messages": [{"role": "assistant", "content": redacted_text("x")}],
        "origins": [{"kind": "step"}],
        "temperature": 0.5,
        "max_tokens": 9,
    }


def test_equal_texts_have_equal_hashes() -> None:
    first, again, other = (redacted_text(text)["redacted"] for text in ("a" * 9, "a" * 9, "b" * 9))
    assert first == again == {"chars": 9, "tokens": 3, "hash": first["hash"]}
    assert first["hash"] != other["hash"] and len(first["hash"]) == 16


def test_values_of_any_type_are_removed() -> None:
    number = 4711_4711_4711_4711_4711  # longer than a hash, which may have any digits
    arguments, response = tool_json({"n": number, "when": object}, ToolResult.success(number))
    assert str(number) not in json.dumps([arguments, response])
    assert redacted_text("\ud800")["redacted"]["chars"] == 1


@pytest.mark.parametrize(
    ("value", "mode"),
    [("", "full"), ("full", "full"), ("redacted", "redacted"), ("off", "off"), ("Redacted", "redacted")],
)
def test_an_unknown_mode_records_no_contents(monkeypatch: pytest.MonkeyPatch, value: str, mode: str) -> None:
    monkeypatch.setenv("ARCHON_RECORDS", value)
    assert record_mode() is RecordMode(mode)


def test_full_records_are_as_they_were_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARCHON_RECORDS", "full")
    reply = ModelReply(SECRET, (), Usage(1, 1), "m", "stop")
    assert response_json(reply)["text"] == SECRET
    assert tool_json({"word": SECRET}, ToolResult.success(SECRET)) == (
        {"word": SECRET},
        {"status": "success", "content": SECRET},
    )


def test_names_and_hashes_of_files_are_not_recorded() -> None:
    files = [Media(PNG, "image/png", name="holiday.png"), Media.at("https://x.org/4711", "image/png")]
    request = ModelRequest([ChatMessage("user", "Look.", files=files)])
    recorded = request_json("m", request, [])["messages"][0]
    assert [file["media_type"] for file in recorded["files"]] == ["image/png", "image/png"]
    assert recorded["files"][0]["bytes"] == len(PNG)
    text = json.dumps(recorded)
    assert "holiday" not in text and files[0].digest not in text and "iVBOR" not in text


def test_a_record_has_no_bytes_of_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARCHON_RECORDS", "full")
    file = Media(PNG, "image/png", name="a.png")
    [message] = request_json("m", ModelRequest([ChatMessage("user", "Look.", files=[file])]), [])["messages"]
    assert message == {
        "role": "user",
        "content": "Look.",
        "files": [{"media_type": "image/png", "name": "a.png", "bytes": len(PNG), "hash": file.digest}],
    }
