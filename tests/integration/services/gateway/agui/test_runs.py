"""Runs of the mesh for front ends that speak AG-UI."""

from __future__ import annotations

import asyncio
import base64
import json
import uuid
from typing import Any

import pytest

from tests.fixtures.agui_mesh import Painter, front_end, input_of, speak_when_watched, user
from tests.fixtures.http_gateway import OPERATOR, ORCHESTRATOR, STRANGER, VIEWER
from tests.integration.services.gateway.agui.conftest import Studio


@pytest.fixture
def live(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> Painter:
    """The painter, whose pieces come once a stream follows its run."""
    speak_when_watched(studio.painter, monkeypatch)
    return studio.painter


async def test_a_message_is_a_run_with_its_answer_as_text(studio: Studio) -> None:
    source = input_of(user("paint the fence"), threadId="garden")
    async with front_end(studio.mesh, OPERATOR) as ui:
        stream = await ui.run(source)
        run_id = stream.events[0]["metadata"]["dev.archon/run-id"]
        run = (await ui.http.post(f"{ORCHESTRATOR}/GetRun", json={"runId": run_id})).json()["run"]
    assert stream.outcome == "success"
    assert (stream.texts, stream.last["result"]) == (["did: paint the fence"], "did: paint the fence")
    assert stream.all("STEP_STARTED")[0]["stepName"] == "painter"
    assert (run["sessionId"], run["identity"]) == ("garden", "olga")
    started, finished = stream.events[0], stream.last
    assert (started["threadId"], started["runId"], started["protocolVersion"]) == ("garden", source["runId"], "1.0")
    assert (finished["threadId"], finished["runId"]) == ("garden", source["runId"])


async def test_text_and_thinking_come_in_pieces(studio: Studio, live: Painter) -> None:
    async with front_end(studio.mesh, OPERATOR) as ui, ui.open(input_of(user("write it"))) as stream:
        await stream.until("TEXT_MESSAGE_CONTENT")
        live.released.set()
        await stream.rest()
    assert stream.texts == ["one two three and four"]
    assert "".join(event["delta"] for event in stream.all("REASONING_MESSAGE_CONTENT")) == "let me see"
    assert stream.types.index("REASONING_END") < stream.types.index("TEXT_MESSAGE_START")
    assert len(stream.all("TEXT_MESSAGE_CONTENT")) >= 2


async def test_tool_calls_have_whole_arguments_and_one_id_each(studio: Studio, live: Painter) -> None:
    async with front_end(studio.mesh, OPERATOR) as ui:
        stream = await ui.run(input_of(user("tool use")))
    starts, arguments, results = (stream.all(f"TOOL_CALL_{kind}") for kind in ("START", "ARGS", "RESULT"))
    assert len({event["toolCallId"] for event in starts}) == len(starts) == 3
    assert [json.loads(event["delta"]) for event in arguments] == [{"at": 1}, {"at": 2}, {}]
    assert [event["content"] for event in results][:2] == ["saw 1", "saw 2"]
    assert "not finished" in results[2]["content"]  # or a front end would take the call for one of its own tools
    assert stream.texts == ["Let me look.", "I saw it."]
    first_text = stream.all("TEXT_MESSAGE_START")[0]["messageId"]
    assert starts[0]["parentMessageId"] == first_text
    assert stream.types.index("TEXT_MESSAGE_END") < stream.types.index("TOOL_CALL_START")


async def test_the_state_has_the_tasks_and_keeps_other_keys(studio: Studio) -> None:
    async with front_end(studio.mesh, OPERATOR) as ui:
        stream = await ui.run(input_of(user("paint"), state={"theme": "dark"}))
        other = await ui.run(input_of(user("paint"), state=["mine"]))
    state = stream.all("STATE_SNAPSHOT")[0]["snapshot"]
    assert state["theme"] == "dark"
    for event in stream.all("STATE_DELTA"):
        for change in event["delta"]:
            *path, key = change["path"].removeprefix("/").split("/")
            place = state
            for name in path:
                place = place[name]
            place[key] = change["value"]
    assert state["archon"]["run"]["state"] == "completed"
    assert [task["state"] for task in state["archon"]["tasks"].values()] == ["completed"]
    assert not other.all("STATE_SNAPSHOT") and not other.all("STATE_DELTA")


async def test_images_come_as_activities_and_data_as_results(studio: Studio) -> None:
    async with front_end(studio.mesh, OPERATOR) as ui:
        image = await ui.run(input_of(user("image please")))
        data = await ui.run(input_of(user("data please")))
    [activity] = image.all("ACTIVITY_SNAPSHOT")
    [part] = activity["content"]["parts"]
    assert part["type"] == "image" and base64.b64decode(part["source"]["value"]) == b"\x89PNG"
    assert part["source"]["mimeType"] == "image/png" and part["metadata"] == {"filename": "a.png"}
    assert (image.texts, data.last["result"]) == (["Here."], {"count": 42})


async def test_a_failure_closes_what_is_open_and_is_the_last_event(studio: Studio) -> None:
    async with front_end(studio.mesh, OPERATOR) as ui:
        stream = await ui.run(input_of(user("fail now")))
    assert (stream.outcome, stream.last["type"]) == ("FAILED_PRECONDITION", "RUN_ERROR")
    assert "there is no paint" in stream.last["message"]


async def test_images_files_context_and_props_reach_the_agent(studio: Studio) -> None:
    content = [
        {"type": "text", "text": "see"},
        {
            "type": "image",
            "source": {"type": "data", "value": base64.b64encode(b"x").decode(), "mimeType": "image/png"},
        },
        {
            "type": "document",
            "source": {"type": "url", "value": "https://example.com/a.pdf", "mimeType": "application/pdf"},
        },
        {"type": "binary", "mimeType": "audio/wav", "data": base64.b64encode(b"y").decode(), "filename": "b.wav"},
        {"type": "text", "text": "\nparts are these"},
    ]
    source = input_of(
        {"id": "s", "role": "system", "content": "Be brief."},
        {"id": "m", "role": "user", "content": content},
        context=[{"description": "place", "value": "Rome"}],
        forwardedProps={"colour": "blue", "size": {"x": 1}, "dev.archon/timeout": 60, "dev.archon/agui-run": "forged"},
    )
    async with front_end(studio.mesh, OPERATOR) as ui:
        [text] = (await ui.run(source)).texts
    assert "'text', 'text', 'text', 'image/png', 'application/pdf', 'audio/wav', 'text'" in text
    assert "'colour': 'blue'" in text and """'size': '{"x": 1}'""" in text and "forged" not in text


async def test_a_stateless_role_gets_the_earlier_messages(studio: Studio) -> None:
    history = [user("I am Ann."), {"id": "a", "role": "assistant", "content": "Hello Ann."}, user("Who am I?")]
    async with front_end(studio.mesh, OPERATOR) as ui:
        stream = await ui.run(input_of(*history))
    assert "user: I am Ann." in stream.texts[0] and stream.texts[0].endswith("Who am I?")


async def test_the_mesh_itself_chooses_roles(studio: Studio) -> None:
    async with front_end(studio.mesh, OPERATOR, "/agui") as ui:
        stream = await ui.run(input_of(user("15 * 24")))
    assert stream.outcome == "success" and stream.texts


async def test_the_same_run_id_runs_once_and_is_replayed(studio: Studio) -> None:
    before = studio.painter.calls
    source = input_of(user("paint once"))
    async with front_end(studio.mesh, OPERATOR) as ui:
        first = await ui.run(source)
        again = await ui.run(source)
        half = {"id": first.all("TEXT_MESSAGE_START")[0]["messageId"], "role": "assistant", "content": "did: pa"}
        resent = await ui.run({**source, "messages": [*source["messages"], half]})
    assert studio.painter.calls == before + 1
    assert first.texts == again.texts == resent.texts == ["did: paint once"]
    [snapshot] = resent.all("MESSAGES_SNAPSHOT")  # withdraws what the front end has of the run
    assert [message["role"] for message in snapshot["messages"]] == ["user"]
    assert not first.all("MESSAGES_SNAPSHOT")


async def test_a_stream_goes_on_after_the_last_event_id(studio: Studio, live: Painter) -> None:
    source = input_of(user("write it"))
    async with front_end(studio.mesh, OPERATOR) as ui:
        async with ui.open(source) as stream:
            await stream.until("TEXT_MESSAGE_CONTENT")
        async with ui.open(source, after=stream.ids[-1]) as rest:
            await rest.until("STATE_SNAPSHOT")
            live.released.set()
            await rest.rest()
        known = await ui.run(source, after=rest.ids[-1])
    assert (rest.texts, rest.outcome) == (["one two three and four"], "success")
    assert rest.ids[0] >= stream.ids[-1]
    assert known.texts == [] and known.outcome == "success"
    assert "one two three and four" in str(known.all("MESSAGES_SNAPSHOT"))


async def test_a_run_goes_on_without_its_front_end(studio: Studio, live: Painter) -> None:
    source = input_of(user("wait please"))
    async with front_end(studio.mesh, OPERATOR) as ui:
        async with ui.open(source) as stream:
            await stream.until("STEP_STARTED")
        live.released.set()
        assert (await ui.run(source)).texts == ["released"]
    assert not live.cancelled.is_set()


async def test_a_run_ends_with_its_stream_if_asked_to(studio: Studio, live: Painter) -> None:
    live.cancelled.clear()
    source = input_of(user("wait please"), forwardedProps={"dev.archon/cancel-on-disconnect": True})
    async with front_end(studio.mesh, OPERATOR) as ui:
        async with ui.open(source) as stream:
            await stream.until("STEP_STARTED")
        async with asyncio.timeout(10):
            await live.cancelled.wait()
        assert (await ui.run(source)).outcome == "cancelled"


async def test_a_thread_is_stopped(studio: Studio, live: Painter) -> None:
    source = input_of(user("wait please"), threadId=f"a/b {uuid.uuid4().hex}")
    async with front_end(studio.mesh, OPERATOR) as ui, ui.open(source) as stream:
        await stream.until("STEP_STARTED")
        answer = await ui.http.post(f"/agui/painter/stop/{source['threadId']}")
        assert (answer.status_code, len(answer.json()["stopped"])) == (200, 1)
        await stream.rest()
        assert stream.outcome == "cancelled"
        old = await ui.run({**source, "protocolVersion": None})
    assert (old.last["type"], old.outcome) == ("RUN_ERROR", "CANCELLED")  # as front ends before 1.0 know it


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"threadId": ""}, "threadId"),
        ({"runId": "x" * 300}, "runId"),
        ({"messages": [{"id": "1", "role": "stranger", "content": "x"}]}, "messages"),
        ({"messages": []}, "no new message"),
        ({"messages": [user("x"), {"id": "a", "role": "assistant", "content": "y"}]}, "no new message"),
        ({"messages": [{"id": "1", "role": "user", "content": [{"type": "image", "source": {"type": "data", "value": "?", "mimeType": "image/png"}}]}]}, "base64"),
        ({"messages": [{"id": "1", "role": "user", "content": [{"type": "image", "source": {"type": "file", "value": "f"}}]}]}, "provider"),
        ({"tools": [{"name": "t", "description": "d"}] * 33}, "tools"),
        ({"forwardedProps": {"a": "x" * 5_000}}, "forwardedProps"),
        ({"forwardedProps": {"dev.archon/timeout": "soon"}}, "timeout"),
        ({"resume": [{"interruptId": "a", "status": "maybe"}]}, "resume"),
    ],
)  # fmt: skip
async def test_an_invalid_input_is_refused_with_its_field(studio: Studio, change: dict[str, Any], says: str) -> None:
    async with studio.mesh.http(OPERATOR) as http:
        answer = await http.post("/agui/painter", json={**input_of(user("x")), **change})
    assert (answer.status_code, says in answer.json()["message"]) == (400, True), answer.text


async def test_callers_are_held_to_their_rights(studio: Studio) -> None:
    source = input_of(user("paint"))
    async with (
        studio.mesh.http(None) as guest,
        studio.mesh.http(VIEWER) as viewer,
        studio.mesh.http(STRANGER) as other,
    ):
        assert (await guest.post("/agui/painter", json=source)).status_code == 401
        assert (await viewer.post("/agui/painter", json=source)).status_code == 403
        assert (await other.post("/agui/painter", json=source)).status_code == 404  # the role is of another tenant
    async with studio.mesh.http(OPERATOR) as http:
        text = json.dumps(source)
        assert (await http.post("/agui/absent", json=source)).status_code == 404
        assert (
            await http.post("/agui/painter", content=text, headers={"content-type": "text/plain"})
        ).status_code == 400
        assert (
            await http.post("/agui/painter", content="[" * 100_000, headers={"content-type": "application/json"})
        ).status_code == 400


async def test_the_capabilities_of_an_agent_are_described(studio: Studio) -> None:
    async with studio.mesh.http(VIEWER) as http:
        role = (await http.get("/agui/painter")).json()
        mesh = (await http.get("/agui")).json()
    assert (role["identity"]["name"], role["identity"]["description"]) == ("painter", "Paints")
    assert role["humanInTheLoop"]["interrupts"] and role["transport"]["resumable"]
    assert {"name": "painter", "description": "Paints"} in mesh["multiAgent"]["subagents"]


async def test_a_gateway_that_stops_leaves_the_run_to_another(studio: Studio, live: Painter) -> None:
    source = input_of(user("wait please"), forwardedProps={"dev.archon/cancel-on-disconnect": True})
    async with front_end(studio.mesh, OPERATOR) as ui, ui.open(source) as stream:
        await stream.until("STEP_STARTED")
        await studio.mesh.gateway.stop()
        await stream.rest()
    await studio.mesh.gateway.start()
    assert (stream.last["type"], stream.outcome) == ("RUN_ERROR", "UNAVAILABLE")
    live.released.set()
    async with front_end(studio.mesh, OPERATOR) as ui:
        assert (await ui.run(source)).texts == ["released"]
