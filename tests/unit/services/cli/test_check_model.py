"""The model, as `archon doctor` finds it."""

from __future__ import annotations

import pytest

from archon_services.cli.checks import model
from archon_services.cli.checks.finding import Finding
from tests.unit.services.cli.found import answering, levels, said


@pytest.mark.parametrize(
    ("spec", "given", "level", "words"),
    [
        ("", {}, "ok", "offline"),
        ("offline", {"OPENAI_API_KEY": "k"}, "ok", "a key alone"),
        ("gpt-5", {}, "problem", "'gpt-5'"),
        ("openai/", {}, "problem", "'openai/'"),
        ("openai/some", {}, "problem", "no key"),
        ("openai/some", {"OPENAI_API_KEY": "k"}, "ok", "api.openai.com, with a key"),
        ("openai/some", {"OPENAI_BASE_URL": "http://me:pass@10.0.0.1:11434/v1"}, "ok", "10.0.0.1:11434, without a key"),
    ],
)
async def test_the_model_is_named_and_has_its_key(
    monkeypatch: pytest.MonkeyPatch, spec: str, given: dict[str, str], level: str, words: str
) -> None:
    found = await model_found(monkeypatch, {"ARCHON_MODEL": spec, **given}, online=False)
    assert levels(found) == [level] and words in said(found)
    assert "pass" not in said(found)


@pytest.mark.parametrize(
    ("status", "body", "level", "words"),
    [
        (200, b'{"data": [{"id": "some"}]}', "ok", "it answers"),
        (200, b'{"data": [{"id": "other"}]}', "warning", "lists no model some"),
        (200, b"hello", "ok", "it answers"),
        (401, b"", "problem", "refuses the key"),
        (404, b"", "warning", "status 404"),
        (302, b"", "warning", "status 302"),
    ],
)
async def test_online_asks_the_endpoint_of_the_model(
    monkeypatch: pytest.MonkeyPatch, status: int, body: bytes, level: str, words: str
) -> None:
    with answering(status, body, {"Location": "http://127.0.0.1:1/elsewhere"}) as (address, got):
        given = {"ARCHON_MODEL": "openai/some", "OPENAI_BASE_URL": f"http://{address}/v1", "OPENAI_API_KEY": "s3cret"}
        found = await model_found(monkeypatch, given, online=True)
    assert levels(found) == [level] and words in said(found)
    assert (got[0]["path"], got[0]["Authorization"]) == ("/v1/models", "Bearer s3cret")
    assert "s3cret" not in said(found)


async def test_an_endpoint_that_is_not_there_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    for endpoint in ("http://127.0.0.1:1/v1", "nowhere"):
        given = {"ARCHON_MODEL": "openai/some", "OPENAI_BASE_URL": endpoint}
        assert levels(await model_found(monkeypatch, given, online=True)) == ["problem"]


async def model_found(monkeypatch: pytest.MonkeyPatch, given: dict[str, str], *, online: bool) -> list[Finding]:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    return await model.check_model(given, online=online)
