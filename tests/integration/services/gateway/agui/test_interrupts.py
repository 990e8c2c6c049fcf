"""Questions to people as interrupts, and resumes as their answers."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.fixtures.agui_mesh import follow_up, front_end, input_of, resume, user
from tests.fixtures.http_gateway import OPERATOR, ORCHESTRATOR, VIEWER
from tests.integration.services.gateway.agui.conftest import Studio


async def test_a_question_interrupts_and_an_answer_resumes(studio: Studio) -> None:
    source = input_of(user("ask for it"))
    async with front_end(studio.mesh, OPERATOR) as ui:
        asked = await ui.run(source)
        [interrupt] = asked.interrupts
        assert (interrupt["reason"], interrupt["message"]) == ("input_required", "Which colour?")
        assert interrupt["responseSchema"]["type"] == "string"
        assert asked.types[-3:] == ["STATE_SNAPSHOT", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
        answered = follow_up(source, resume=resume([interrupt], "blue"))
        done = await ui.run(answered)
        assert (done.outcome, done.texts) == ("success", ["painted blue"])
        again = await ui.run(answered)  # the same run
        other = await ui.run(follow_up(answered))  # the same answer
        late = await ui.run(follow_up(source, resume=resume([interrupt], "red")))
    assert again.texts == other.texts == ["painted blue"]
    assert late.outcome == "FAILED_PRECONDITION"


async def test_a_thread_with_a_question_takes_nothing_else(studio: Studio) -> None:
    source = input_of(user("ask for it"))
    async with front_end(studio.mesh, OPERATOR) as ui:
        asked = await ui.run(source)
        assert (await ui.run(follow_up(source))).outcome == "INTERRUPTS_PENDING"
        same = await ui.run(source)
        assert same.interrupts == asked.interrupts
        assert (await ui.http.post(f"/agui/painter/stop/{source['threadId']}")).json()["stopped"]
        news = follow_up(source, messages=[*source["messages"], user("paint")], resume=resume(asked.interrupts, "x"))
        assert (await ui.run(news)).texts[0].endswith("paint")  # the run with the question has ended


@pytest.mark.parametrize(
    "interrupt",
    [
        "nonsense",
        "{run}/1/other",
        pytest.param("run/1/question", marks=pytest.mark.slow),
        pytest.param("", marks=pytest.mark.slow),
    ],
)
async def test_an_unknown_interrupt_is_an_error_of_the_run(studio: Studio, interrupt: str) -> None:
    source = input_of(user("ask for it"))
    async with front_end(studio.mesh, OPERATOR) as ui:
        [known] = (await ui.run(source)).interrupts
        name = interrupt.format(run=known["id"].partition("/")[0])
        stream = await ui.run(follow_up(source, resume=resume([{"id": name}], "x")))
        elsewhere = await ui.run({**follow_up(source, resume=resume([known], "x")), "threadId": uuid.uuid4().hex})
    assert stream.outcome == elsewhere.outcome == "UNKNOWN_INTERRUPT"
    assert stream.types == ["RUN_ERROR"]


async def test_a_form_is_checked_against_its_schema(studio: Studio) -> None:
    source = input_of(user("form please"))
    async with front_end(studio.mesh, OPERATOR) as ui:
        [interrupt] = (await ui.run(source)).interrupts
        assert interrupt["responseSchema"]["required"] == ["size"]
        wrong = await ui.run(follow_up(source, resume=resume([interrupt], {"size": "large"})))
        assert wrong.outcome == "INVALID_ARGUMENT" and "schema" in wrong.last["message"]
        assert (await ui.run(follow_up(source, resume=resume([interrupt], {"size": 3})))).texts == ['size {"size": 3}']


@pytest.mark.parametrize(
    ("payload", "answer"),
    [
        ({"approved": True}, "decided: approve"),
        pytest.param(True, "decided: approve", marks=pytest.mark.slow),
        ({"approved": False, "reason": "too much"}, "decided: reject too much"),
        ({"approved": True, "editedArgs": {"euros": 4}}, 'decided: modify {"euros": 4}'),
    ],
)
async def test_an_approval_is_decided(studio: Studio, payload: Any, answer: str) -> None:
    source = input_of(user("approve it"))
    async with front_end(studio.mesh, OPERATOR) as ui:
        [interrupt] = (await ui.run(source)).interrupts
        assert interrupt["reason"] == "confirmation" and interrupt["metadata"]["dev.archon/role"] == "painter"
        assert (await ui.run(follow_up(source, resume=resume([interrupt], "perhaps")))).outcome == "INVALID_ARGUMENT"
        stream = await ui.run(follow_up(source, resume=resume([interrupt], payload)))
    assert stream.texts == [answer]


async def test_a_cancelled_question_cancels_the_run(studio: Studio) -> None:
    source = input_of(user("ask for it"))
    async with front_end(studio.mesh, OPERATOR) as ui:
        [interrupt] = (await ui.run(source)).interrupts
        given_up = follow_up(source, resume=[{"interruptId": interrupt["id"], "status": "cancelled"}])
        assert (await ui.run(given_up)).outcome == "cancelled"
        assert (await ui.run(given_up)).outcome == "cancelled"


async def test_a_secret_is_sealed_and_no_event_has_it(studio: Studio) -> None:
    source = input_of(user("secret please"))
    async with front_end(studio.mesh, OPERATOR) as ui:
        [interrupt] = (await ui.run(source)).interrupts
        assert (interrupt["reason"], interrupt["responseSchema"]["writeOnly"]) == ("archon:secret", True)
        answered = follow_up(source, resume=resume([interrupt], "my-dear-secret"))
        done = await ui.run(answered)
        assert done.texts == ["a secret of 14 characters"]
        assert (await ui.run(answered)).texts == done.texts
        run_id = done.events[0]["metadata"]["dev.archon/run-id"]
        steps = (await ui.http.post(f"{ORCHESTRATOR}/ListRunSteps", json={"runId": run_id})).text
    assert "my-dear-secret" not in f"{done.events}{steps}"


async def test_only_an_approver_may_answer(studio: Studio) -> None:
    source = input_of(user("ask for it"))
    async with front_end(studio.mesh, OPERATOR) as ui, front_end(studio.mesh, VIEWER) as viewer:
        [interrupt] = (await ui.run(source)).interrupts
        answer = await viewer.run(follow_up(source, resume=resume([interrupt], "red")))
        assert answer.outcome == "PERMISSION_DENIED"


async def test_an_answer_elsewhere_lets_the_run_go_on(studio: Studio) -> None:
    source = input_of(user("ask for it"))
    async with front_end(studio.mesh, OPERATOR) as ui:
        asked = await ui.run(source)
        run_id, _, input_id = asked.interrupts[0]["id"].split("/", 2)
        body = {"runId": run_id, "inputId": input_id, "parts": [{"text": "green"}]}
        assert (await ui.http.post(f"{ORCHESTRATOR}/Respond", json=body)).status_code == 200
        assert (await ui.run(source)).texts == ["painted green"]
