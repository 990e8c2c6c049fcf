"""Credentials of tools: where they come from, and that their values are shown nowhere."""

from __future__ import annotations

import asyncio
import copy
import json
import logging
import pickle
from typing import Any

import pytest

from archon.errors import PermissionDenied
from archon_mesh.tools import MissingCredentials, Secret, Tool, ToolExecutionEngine, ToolRegistry, ToolResult, tool
from archon_mesh.tools import credentials as credentials_module
from archon_mesh.tools.credentials import redacted
from tests.fixtures.virtual_time import VirtualTime

VALUE = "s3cr3t-value"


@tool(credentials=["api_key"])
async def fetch(what: str, api_key: Secret) -> dict[str, Any]:
    """Fetches, and shows too much."""
    if what == "crash":
        raise ValueError(f"401 for key {api_key.reveal()}")
    return {"url": f"https://x/?key={api_key.reveal()}", api_key.reveal(): [what, f"{api_key}"]}


def engine(*tools: Any, **more: Any) -> ToolExecutionEngine:
    return ToolExecutionEngine(ToolRegistry(tools or [fetch]), **more)


def test_secret_shows_nothing() -> None:
    secret = Secret(VALUE)
    shown = f"{secret} {secret!r} {secret:>20} {[secret]} {json.dumps({'k': secret}, default=str)} %s" % secret
    assert VALUE not in shown
    assert "***" in shown
    assert secret == Secret(VALUE) != Secret("other")
    assert len({secret, Secret(VALUE), Secret("other")}) == 2
    assert copy.deepcopy({"k": secret})["k"] is secret
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(secret)
    assert not hasattr(secret, "__dict__")


async def test_declared_credential_is_passed_and_not_in_the_schema() -> None:
    assert list(fetch.parameters_schema["properties"]) == ["what"]
    result = await engine(credentials={"api_key": VALUE}).execute_tool_call("fetch", {"what": "a"})
    assert result.content == {"url": "https://x/?key=***", "***": ["a", "***"]}
    forged = await engine(credentials={"api_key": VALUE}).execute_tool_call("fetch", {"what": "a", "api_key": "mine"})
    assert "api_key: Extra inputs" in forged.error_message


async def test_class_gets_its_credential_in_place_of_a_forged_one() -> None:
    class Login(Tool):
        name = "login"
        credentials = ("password",)

        async def execute(self, **kwargs: Any) -> str:
            return type(kwargs["password"]).__name__

    login = engine(Login(), credentials={"password": VALUE})
    assert (await login.execute_tool_call("login", {"password": "forged"})).content == "Secret"


async def test_secret_is_neither_in_results_nor_in_logs(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    outcome = await engine(credentials=lambda name: Secret(VALUE)).run("fetch", {"what": "crash"})
    assert outcome.result.error_message == "ValueError: 401 for key ***"
    assert str(outcome.error) == "401 for key ***"
    assert "Traceback" in caplog.text
    assert "Traceback" not in str(outcome.result)
    assert VALUE not in caplog.text + repr(outcome) + repr(outcome.error)


async def test_secret_is_not_in_the_metadata_that_a_tool_sets() -> None:
    @tool(credentials=["api_key"])
    async def chatty(api_key: Secret) -> ToolResult:
        """Shows its credential."""
        return ToolResult.success("ok", {"sent": [api_key.reveal()]})

    result = await engine(chatty, credentials={"api_key": VALUE}).execute_tool_call("chatty")
    assert result.metadata["sent"] == ["***"]


async def test_time_of_the_person_is_not_that_of_the_call() -> None:
    time = VirtualTime()

    async def ask(*_: str) -> str:
        time.now += 100
        return VALUE

    @tool(credentials=["api_key"])
    async def login(api_key: Secret) -> str:
        """Takes some turns of the event loop."""
        for _ in range(20):
            await asyncio.sleep(0)
        return "in"

    run = engine(login, ask_credential=ask, clock=time.clock)
    assert (await run.execute_tool_call("login", timeout_seconds=5)).content == "in"


async def test_missing_credential_is_named() -> None:
    outcome = await engine().run("fetch", {"what": "a"})
    assert isinstance(outcome.error, MissingCredentials)
    assert isinstance(outcome.error, PermissionDenied)
    assert outcome.error.metadata == {"credential": "api_key", "tool": "fetch"}
    result = outcome.result
    assert result.error_message == "missing credential 'api_key'"
    assert [result.metadata[key] for key in ("code", "reason", "kind", "attempts")] == [
        "PERMISSION_DENIED",
        "PERMISSION_DENIED",
        "tool.permission",
        0,
    ]


async def test_person_is_asked_once_by_concurrent_calls() -> None:
    asked: list[tuple[str, str]] = []

    async def ask(tool_name: str, credential: str) -> str:
        asked.append((tool_name, credential))
        await asyncio.sleep(0)
        return VALUE

    run = engine(ask_credential=ask)
    results = await asyncio.gather(*(run.execute_tool_call("fetch", {"what": str(n)}) for n in range(5)))
    assert [result.ok for result in results] == [True] * 5
    assert asked == [("fetch", "api_key")]
    assert (await run.execute_tool_call("fetch", {"what": "again"})).ok


def test_the_longest_secret_is_hidden_first_and_a_short_one_not_at_all() -> None:
    secrets = [Secret("abcd"), Secret("abcdefgh"), Secret("xyz")]
    assert redacted("abcdefgh abcd xyz", secrets) == "*** *** xyz"


async def test_an_engine_that_asks_has_answers_of_its_own() -> None:
    async def answer(tool_name: str, credential: str) -> str:
        return VALUE

    shared = engine()
    assert (await shared.asking(answer).execute_tool_call("fetch", {"what": "a"})).ok
    assert not (await shared.execute_tool_call("fetch", {"what": "a"})).ok, "the answer is not known to it"
    assert shared.health()["fetch"].calls == 1, "the state of each tool is shared"
    known = engine(credentials={"api_key": VALUE})
    assert (await known.asking(answer).execute_tool_call("fetch", {"what": "a"})).ok


async def test_an_error_with_a_secret_keeps_its_kind(caplog: pytest.LogCaptureFixture) -> None:
    outcome = await engine(credentials={"api_key": VALUE}).run("fetch", {"what": "crash"})
    assert str(outcome.error) == "401 for key ***"
    assert outcome.result.content == outcome.result.error_message == "ValueError: 401 for key ***"
    assert getattr(outcome.error, "kind", "") == outcome.result.metadata["kind"] == "tool.crash"
    assert VALUE not in caplog.text


async def test_person_without_an_answer_is_a_denied_call(monkeypatch: pytest.MonkeyPatch) -> None:
    async def silent(*_: str) -> None:
        await asyncio.Event().wait()

    async def broken(*_: str) -> str:
        raise ValueError(VALUE)

    async def declines(*_: str) -> None:
        return None

    monkeypatch.setattr(credentials_module, "ASK_SECONDS", 0.01)
    for ask in (silent, broken, declines):
        result = await engine(ask_credential=ask).execute_tool_call("fetch", {"what": "a"})
        assert result.metadata["code"] == "PERMISSION_DENIED"
        assert result.text == "missing credential 'api_key'"


async def test_answer_of_a_person_may_be_a_change_of_the_source() -> None:
    source: dict[str, Secret | str] = {}

    async def ask(tool_name: str, credential: str) -> None:
        source[credential] = VALUE

    assert (await engine(credentials=source, ask_credential=ask).execute_tool_call("fetch", {"what": "a"})).ok


async def test_failing_source_is_a_missing_credential(caplog: pytest.LogCaptureFixture) -> None:
    def source(name: str) -> str:
        raise ValueError(f"{VALUE} is wrong")

    result = await engine(credentials=source).execute_tool_call("fetch", {"what": "a"})
    assert result.error_message == "missing credential 'api_key'"
    messages = [record.getMessage() for record in caplog.records]
    assert messages[0] == "the source of credentials failed for api_key: ValueError"
    assert VALUE not in caplog.text


async def test_tool_may_find_out_itself_that_a_credential_is_missing() -> None:
    @tool(idempotent=True)
    async def login() -> None:
        """Needs a token."""
        raise MissingCredentials("token")

    outcome = await engine(login).run("login")
    assert outcome.result.error_message == "missing credential 'token'"
    assert (outcome.result.metadata["code"], outcome.result.metadata["attempts"]) == ("PERMISSION_DENIED", 1)
