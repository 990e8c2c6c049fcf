"""A2A tasks are runs, over each binding, for clients of the protocol's own SDK."""

from __future__ import annotations

import asyncio
import uuid

import pytest
from a2a.types import a2a_pb2
from a2a.utils.errors import A2AError

from archon.principal import Kind, Principal
from archon.types.run_event import RunEvent
from archon_services.common.a2a_keys import DECISION
from archon_services.gateway.a2a.events import TaskEvent, TaskEvents
from tests.fixtures.a2a_mesh import BINDINGS, GRPC, HTTP_JSON, JSONRPC, calling, fold, state_of, text_of
from tests.fixtures.http_gateway import OPERATOR, STRANGER, VIEWER
from tests.integration.services.gateway.a2a.conftest import Office

ONE_QUICKLY = [pytest.param(GRPC), *(pytest.param(each, marks=pytest.mark.slow) for each in (JSONRPC, HTTP_JSON))]
"""The bindings of a test whose subject is behind all of them."""


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_message_is_a_run_with_its_answer_as_artifact(office: Office, binding: str) -> None:
    async with calling(office.mesh, OPERATOR, binding=binding, streaming=False) as caller:
        task = await caller.send("paint the fence", context_id=f"garden-{binding}")
        assert (state_of(task), text_of(task)) == ("completed", "did: paint the fence")
        assert task.artifacts[0].name == "clerk"
        assert [message.parts[0].text for message in task.history] == ["paint the fence"]
        assert await caller.get(task.id) == task
        listed = await caller.list(context_id=f"garden-{binding}")
        assert [each.id for each in listed.tasks] == [task.id] and not listed.tasks[0].artifacts
        with pytest.raises(A2AError, match="has ended"):
            await caller.cancel(task.id)
        with pytest.raises(A2AError, match="has ended"):
            await caller.send("more", task_id=task.id)
        with pytest.raises(A2AError):
            await caller.get("no-such-task")


async def test_the_run_of_a_task_has_its_session_and_identity(office: Office) -> None:
    async with calling(office.mesh, OPERATOR) as caller:
        task = await caller.send("paint", context_id="s-1", metadata={"org.example/colour": "blue"})
    async with office.mesh.http(OPERATOR) as http:
        body = (
            await http.post("/archon.api.orchestrator.v1.OrchestratorService/GetRun", json={"runId": task.id})
        ).json()["run"]
    assert (body["sessionId"], body["identity"]) == ("s-1", "olga")
    assert body["metadata"]["org.example/colour"] == "blue"


@pytest.mark.parametrize("binding", ONE_QUICKLY)
async def test_an_answer_comes_in_pieces_while_it_is_written(
    office: Office, binding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    office.clerk.released.clear()
    office.clerk.watched.clear()
    apply = TaskEvents.apply

    def watched(self: TaskEvents, event: RunEvent) -> list[TaskEvent]:
        office.clerk.watched.set()
        return apply(self, event)

    monkeypatch.setattr(TaskEvents, "apply", watched)
    task, updates = a2a_pb2.Task(), []
    async with calling(office.mesh, OPERATOR, binding=binding) as caller:
        async for event in caller.stream("write it"):
            fold(task, event)
            updates.append(event.WhichOneof("payload"))
            if text_of(task).startswith("one "):
                office.clerk.released.set()
    assert (state_of(task), text_of(task)) == ("completed", "one two three")
    assert updates[0] == "task" and updates[-1] == "status_update"
    assert updates.count("artifact_update") >= 2


@pytest.mark.parametrize("binding", ONE_QUICKLY)
async def test_a_question_requires_input_and_a_message_answers_it(office: Office, binding: str) -> None:
    async with calling(office.mesh, OPERATOR, binding=binding) as caller:
        asked = await caller.send("ask for the colour")
        assert state_of(asked) == "input_required"
        assert asked.status.message.parts[0].text == "Which colour?"
        with pytest.raises(A2AError, match="another context"):
            await caller.send("blue", task_id=asked.id, context_id="elsewhere")
        done = await caller.send("blue", task_id=asked.id)
        assert (state_of(done), text_of(done)) == ("completed", "painted blue")
        history = (await caller.get(asked.id)).history
    assert [message.parts[0].text for message in history] == ["ask for the colour", "Which colour?", "blue"]
    assert done.context_id == asked.context_id


async def test_an_approval_takes_a_decision(office: Office) -> None:
    async with calling(office.mesh, OPERATOR) as caller:
        asked = await caller.send("approve the payment")
        with pytest.raises(A2AError, match="approve, reject or modify"):
            await caller.send("hm", task_id=asked.id, metadata={DECISION: "perhaps"})
        done = await caller.send("fine", task_id=asked.id, metadata={DECISION: "approve"})
    assert text_of(done) == "decided: approve"


async def test_a_secret_requires_auth_and_no_event_has_it(office: Office) -> None:
    async with calling(office.mesh, OPERATOR, streaming=False) as caller:
        asked = await caller.send("secret please")
        assert state_of(asked) == "auth_required"
        done = await caller.send("my-dear-secret", task_id=asked.id)
        assert text_of(done) == "a secret of 14 characters"
        assert "my-dear-secret" not in str(await caller.get(asked.id))
    async with office.mesh.http(OPERATOR) as http:
        path = "/archon.api.orchestrator.v1.OrchestratorService/ListRunSteps"
        steps = (await http.post(path, json={"runId": asked.id})).text
    import base64

    for piece in steps.split('"'):
        if len(piece) > 40:
            assert b"my-dear-secret" not in base64.b64decode(piece + "==", altchars=b"-_")


async def test_a_message_with_the_same_uuid_is_one_task(office: Office) -> None:
    message_id = str(uuid.uuid4())
    async with calling(office.mesh, OPERATOR) as caller:
        first = await caller.send("paint once", message_id=message_id)
        assert (await caller.send("paint once", message_id=message_id)).id == first.id
        with pytest.raises(A2AError, match="request"):
            await caller.send("paint twice", message_id=message_id)
        assert (await caller.send("paint", message_id="m")).id != (await caller.send("paint", message_id="m")).id


@pytest.mark.parametrize("binding", ONE_QUICKLY)
async def test_a_cancelled_task_cancels_the_agent(office: Office, binding: str) -> None:
    office.clerk.released.clear()
    office.clerk.cancelled.clear()
    async with calling(office.mesh, OPERATOR, binding=binding) as caller:
        stream = caller.stream("wait for me", configuration=a2a_pb2.SendMessageConfiguration(return_immediately=True))
        event = await anext(stream)
        assert state_of(await caller.cancel(event.task.id)) == "canceled"
        async with asyncio.timeout(5):
            await office.clerk.cancelled.wait()


async def test_a_failure_is_the_message_of_the_status(office: Office) -> None:
    async with calling(office.mesh, OPERATOR) as caller:
        task = await caller.send("fail now")
    assert state_of(task) == "failed" and "there is no paint" in task.status.message.parts[0].text


async def test_json_keeps_its_integers(office: Office) -> None:
    async with calling(office.mesh, OPERATOR, binding=HTTP_JSON) as caller:
        task = await caller.send("data")
    assert task.artifacts[0].parts[0].data.struct_value["count"] == 42


async def test_the_mesh_itself_chooses_a_role(office: Office) -> None:
    async with calling(office.mesh, OPERATOR, role="") as caller:
        task = await caller.send("say hello")
        assert state_of(task) == "completed" and text_of(task)
        assert task.id in {each.id for each in (await caller.list()).tasks}
    async with calling(office.mesh, OPERATOR, role="echo") as other:
        with pytest.raises(A2AError, match="no task"):
            await other.get(task.id)


@pytest.mark.parametrize("binding", ONE_QUICKLY)
async def test_callers_see_and_do_what_the_mesh_lets_them(office: Office, binding: str) -> None:
    async with calling(office.mesh, OPERATOR, binding=binding) as caller:
        task = await caller.send("paint")
    async with calling(office.mesh, None, binding=binding) as unknown:
        with pytest.raises(Exception, match=r"401|token"):
            await unknown.get(task.id)
    async with calling(office.mesh, VIEWER, binding=binding) as viewer:
        assert (await viewer.get(task.id)).id == task.id
        with pytest.raises(Exception, match=r"403|may not call"):
            await viewer.send("paint")
    async with calling(office.mesh, STRANGER, binding=binding) as stranger:
        with pytest.raises(A2AError, match="no run"):
            await stranger.get(task.id)
        assert not (await stranger.list()).tasks
    revoked = Principal(Kind.OPERATOR, "olga")
    async with calling(office.mesh, revoked, binding=binding) as late:
        late.context.service_parameters = office.mesh.headers(revoked, seconds=-5)
        with pytest.raises(Exception, match=r"401|expired"):
            await late.get(task.id)


async def test_pages_are_sorted_by_the_time_of_the_status(office: Office) -> None:
    async with calling(office.mesh, OPERATOR) as caller:
        sent = [(await caller.send("paint", context_id="pages")).id for _ in range(5)]
        found, token = [], ""
        while True:
            page = await caller.list(context_id="pages", page_size=2, page_token=token, include_artifacts=True)
            assert page.total_size == 5 and all(task.artifacts for task in page.tasks)
            found += [task.id for task in page.tasks]
            token = page.next_page_token
            if not token:
                break
        assert found == sent[::-1]
        with pytest.raises(A2AError, match="page token"):
            await caller.list(page_token="???")


async def test_a_page_of_another_type_is_refused(office: Office) -> None:
    async with office.mesh.http(OPERATOR) as http:
        answer = await http.post("/a2a", content=b"{}", headers={"content-type": "text/plain"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32005)


@pytest.mark.parametrize("binding", ONE_QUICKLY)
async def test_a_subscription_has_the_task_and_then_its_end(office: Office, binding: str) -> None:
    office.clerk.released.clear()
    async with calling(office.mesh, OPERATOR, binding=binding) as caller:
        stream = caller.stream("wait here", configuration=a2a_pb2.SendMessageConfiguration(return_immediately=True))
        task_id = (await anext(stream)).task.id
        seen = a2a_pb2.Task()
        async for event in caller.subscribe(task_id):
            fold(seen, event)
            office.clerk.released.set()
        assert (state_of(seen), text_of(seen)) == ("completed", "released")
        with pytest.raises(A2AError, match="has ended"):
            await anext(caller.subscribe(task_id))
