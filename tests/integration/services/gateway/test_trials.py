"""Trials of recorded prompts through the gateway: who may, what they cost, how providers fail, and that the run stays as
it is."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest
import pytest_asyncio

from archon import AgentServer
from archon.agent import AgentSettings
from archon.principal import Kind, Principal
from archon_mesh.agent import Agent
from archon_mesh.llm import ScriptedModel
from archon_mesh.node.handler import agent_handler
from tests.fixtures.http_gateway import OPERATOR, ORCHESTRATOR, STRANGER, VIEWER, GatewayMesh, gateway_mesh
from tests.fixtures.openai_server import Answer, OpenAIServer, completion

BROWSER: Final = {"accept": "text/html,*/*;q=0.8"}
FORM: Final = {"content-type": "application/x-www-form-urlencoded"}
MODEL: Final = "openai/gpt-5-mini"
ADMIN: Final = Principal(Kind.ADMIN, "ada")


class Tried:
    """A mesh whose gateway has a model behind an API, and a run with one recorded call."""

    def __init__(self, served: GatewayMesh, provider: OpenAIServer, run_id: str) -> None:
        self.served, self.provider, self.run_id = served, provider, run_id

    @property
    def path(self) -> str:
        return f"/reports/runs/{self.run_id}/prompts/1"

    async def post(self, caller: Principal | None, **body: Any) -> httpx2.Response:
        async with self.served.http(caller) as http:
            return await http.post(self.path, json=body)


@pytest_asyncio.fixture(scope="module")
async def tried(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Tried]:
    """The mesh of this module."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        async with OpenAIServer() as provider:
            monkeypatch.setenv("OPENAI_BASE_URL", provider.url)
            monkeypatch.setenv("OPENAI_API_KEY", "sk-of-a-test")
            limits: dict[str, Any] = {
                "trial_models": f"{MODEL}, offline",
                "trial_usd": 0.01,
                "trial_usd_per_day": 0.018,
            }
            folder = Path(tmp_path_factory.mktemp("trials"))
            async with gateway_mesh(folder, monkeypatch, trial_seconds=20.0, **limits) as served:
                agent = Agent(
                    "teller", model=ScriptedModel(["A short <b>answer</b>."]), system_prompt="Tell <i>all</i>."
                )
                settings = AgentSettings(registry=served.mesh.registry.address)
                server = AgentServer("teller", handler=agent_handler(agent, memory=""), settings=settings)
                async with server, served.http(OPERATOR) as http:
                    yield Tried(served, provider, await served.submit(http, "Tell me.", roles=["teller"], wait="10s"))


async def test_calls_are_listed_and_shown_to_readers(tried: Tried) -> None:
    async with tried.served.http(VIEWER) as http:
        [call] = (await http.get(tried.path.removesuffix("/1"))).json()["calls"]
        shown = (await http.get(tried.path)).json()
        document = (await http.get(tried.path, headers=BROWSER)).text
        none = await http.get(tried.path.removesuffix("1") + "2")
    assert (call["label"], call["model"]) == ("teller, call 1 of 1", "scripted")
    assert [message["role"] for message in shown["messages"]] == ["system", "user"]
    assert (shown["answer"], none.status_code) == ("A short <b>answer</b>.", 404)
    assert "Tell &lt;i&gt;all&lt;/i&gt;." in document and "<b>answer" not in document
    assert "<textarea" not in document, "a reader tries nothing"


async def test_a_changed_prompt_is_sent_and_its_answer_is_compared(tried: Tried) -> None:
    tried.provider.script(Answer(completion({"content": "A short reply."})))
    async with tried.served.http(OPERATOR) as http:
        before = (await http.post(f"{ORCHESTRATOR}/GetRun", json={"runId": tried.run_id})).json()
    answer = await tried.post(OPERATOR, messages={"1": "Tell little."}, temperature=0.5)
    document = answer.json()
    assert answer.status_code == 200, answer.text
    assert tried.provider.received[-1].body["messages"][0]["content"] == "Tell little."
    assert document["model"] == MODEL and document["answers"][0]["text"] == "A short reply."
    assert {piece["kind"] for piece in document["answers"][0]["difference"]} == {"same", "removed", "added"}
    assert [change["place"] for change in document["changes"]] == ["message 1 (system)", "temperature"]
    async with tried.served.http(OPERATOR) as http:
        after = (await http.post(f"{ORCHESTRATOR}/GetRun", json={"runId": tried.run_id})).json()
    assert before == after, "a trial does not change the run"


async def test_a_browser_sends_the_form_and_sees_the_difference(tried: Tried) -> None:
    tried.provider.script(Answer(completion({"content": "<script>alert(1)</script> A short answer"})))
    async with tried.served.http(OPERATOR, headers=BROWSER) as http:
        form = (await http.get(tried.path)).text
        assert re.findall(r'<textarea name="(message-\d)"', form) == ["message-1", "message-2"]
        [token] = re.findall(r'name="csrf_token" value="([^"]+)"', form)
        body = f"csrf_token={token}&id=form1&message-1=Tell+%3Ci%3Eall%3C%2Fi%3E.&message-2=Tell+me%0D%0Amore.&temperature=&repeat=1&model="
        document = (await http.post(tried.path, content=body, headers=FORM)).text
    assert "<p>message 2 (user)</p>" in document and "<p>message 1 (system)</p>" not in document
    assert tried.provider.received[-1].body["messages"][-1]["content"] == "Tell me\nmore."
    assert "<script>" not in document and "&lt;script&gt;" in document
    assert "Tell me\nmore.</textarea>" in document, "the changed text stays in the form"


async def test_a_form_of_another_caller_or_document_is_refused_and_keeps_its_texts(tried: Tried) -> None:
    before = len(tried.provider.received)
    async with tried.served.http(ADMIN, headers=BROWSER) as http:
        [foreign] = re.findall(r'name="csrf_token" value="([^"]+)"', (await http.get(tried.path)).text)
    async with tried.served.http(OPERATOR, headers=BROWSER) as http:
        for token in ("", "x", foreign):
            body = f"csrf_token={token}&id=form2&message-2=Mine&repeat=1&model="
            document = (await http.post(tried.path, content=body, headers=FORM)).text
            assert "PERMISSION_DENIED" in document and "Mine</textarea>" in document
    assert len(tried.provider.received) == before


async def test_other_kinds_tenants_and_models_are_refused(tried: Tried) -> None:
    before = len(tried.provider.received)
    assert (await tried.post(None)).status_code == 401
    assert (await tried.post(VIEWER)).status_code == 403
    assert (await tried.post(STRANGER)).status_code == 404
    assert (await tried.post(OPERATOR, model="openai/gpt-5-pro")).status_code == 403
    wrongs: list[dict[str, Any]] = [{"repeat": 6}, {"temperature": 9}, {"tools": []}, {"messages": {"x": "y"}}]
    for wrong in wrongs:
        assert (await tried.post(OPERATOR, **wrong)).status_code == 400, wrong
    assert (await tried.post(OPERATOR, messages={"9": "x"})).status_code == 404
    async with tried.served.http(headers={"origin": "https://evil.example", "cookie": "archon_session=x"}) as http:
        assert (await http.post(tried.path, content="model=", headers=FORM)).status_code == 403
    assert len(tried.provider.received) == before


@pytest.mark.slow  # a provider that fails is asked again
@pytest.mark.parametrize("status", [429, 503])
async def test_a_failing_provider_is_shown_with_its_reason(tried: Tried, status: int) -> None:
    failure = Answer({"error": {"message": "come back later"}}, status=status, headers={"Retry-After": "0"})
    tried.provider.script(*[failure] * 10)
    document = (await tried.post(Principal(Kind.OPERATOR, f"o{status}"))).json()
    tried.provider._answers.clear()
    [answer] = document["answers"]
    assert answer["error"]["code"] == {429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE"}[status]
    assert "come back later" in answer["error"]["message"]


async def test_an_identity_spends_no_more_than_its_day_allows(tried: Tried) -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 4_500, "total_tokens": 4_600}
    tried.provider.script(*[Answer(completion({"content": "long"}, usage=usage))] * 3)
    spender = Principal(Kind.OPERATOR, "sam")
    answers = [await tried.post(spender, maxTokens=4_000) for _ in range(3)]
    tried.provider._answers.clear()
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert answers[2].json()["details"][0]["debug"]["reason"] == "QUOTA_EXCEEDED"
    assert int(answers[2].headers["retry-after"]) <= 86_400
    assert (await tried.post(OPERATOR, model="offline")).status_code == 200, "others go on"


async def test_a_trial_above_its_budget_sends_nothing(tried: Tried) -> None:
    before = len(tried.provider.received)
    document = (await tried.post(Principal(Kind.OPERATOR, "tom"), maxTokens=100_000)).json()
    assert document["answers"] == [] and document["stopped"]
    assert len(tried.provider.received) == before


async def test_the_same_request_is_one_trial_and_another_one_waits(tried: Tried) -> None:
    gate = asyncio.Event()
    tried.provider.script(Answer(completion({"content": "once"}), gate=gate))
    before = len(tried.provider.received)
    tried.provider.arrived.clear()
    first = asyncio.create_task(tried.post(ADMIN, id="twice"))
    await tried.provider.arrived.wait()
    second = asyncio.create_task(tried.post(ADMIN, id="twice"))
    other = await tried.post(ADMIN, id="other")
    gate.set()
    answers = [await first, await second]
    assert [answer.json()["answers"][0]["text"] for answer in answers] == ["once", "once"]
    assert (other.status_code, len(tried.provider.received) - before) == (429, 1)


async def test_each_trial_has_a_record_for_auditors(tried: Tried) -> None:
    secret = "a text that no record may have"
    await tried.post(OPERATOR, id="recorded", model="offline", messages={"1": secret})
    async with tried.served.http(Principal(Kind.AUDITOR, "ina")) as http:
        listed = await http.get("/reports/trials")
    async with tried.served.http(OPERATOR) as http:
        assert (await http.get("/reports/trials")).status_code == 403
    async with tried.served.http(Principal(Kind.AUDITOR, "bea", tenant="blue")) as http:
        assert (await http.get("/reports/trials")).json() == {"trials": []}
    record = next(each for each in listed.json()["trials"] if each["id"] == "recorded")
    assert (record["identity"], record["run_id"], record["model"], record["state"], record["answers"]) == (
        *("olga", tried.run_id, "offline", "ended", 1),
    )
    assert record["changed"] == ["message 1 (system)"] and secret not in listed.text
