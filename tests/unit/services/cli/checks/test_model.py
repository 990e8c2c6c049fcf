"""Checks of the model."""

from __future__ import annotations

import pytest

from archon_services.cli.checks import model
from archon_services.cli.checks.finding import Finding
from archon_services.local_mesh.state import MeshState, ProcessState
from tests.unit.services.cli.checks.findings import http_server, levels, texts


@pytest.mark.parametrize(
    ("spec", "variables", "level", "text"),
    [
        ("", {}, "ok", "offline"),
        ("offline", {"OPENAI_API_KEY": "k"}, "ok", "not used"),
        ("gpt-5", {}, "problem", "'gpt-5'"),
        ("openai/", {}, "problem", "'openai/'"),
        ("openai/some", {}, "problem", "no usable key"),
        ("openai/some", {"OPENAI_API_KEY": "k"}, "ok", "api.openai.com, with a key"),
        ("openai-responses/some", {"OPENAI_API_KEY": "k"}, "ok", "api.openai.com, with a key"),
        ("anthropic/some", {"ANTHROPIC_API_KEY": "k"}, "ok", "api.anthropic.com, with a key"),
        ("text/anthropic/some", {"ANTHROPIC_API_KEY": "k"}, "ok", "api.anthropic.com, with a key"),
        ("anthropic/some", {"OPENAI_API_KEY": "k"}, "problem", "no usable key"),
        ("google/some", {"GEMINI_API_KEY": "k"}, "ok", "generativelanguage.googleapis.com, with a key"),
        ("google/some", {"OPENAI_API_KEY": "k"}, "problem", "Set GOOGLE_API_KEY."),
        ("mistral/some", {"MISTRAL_API_KEY": "k"}, "ok", "api.mistral.ai, with a key"),
        ("bedrock/some", {"AWS_REGION": "eu-west-1"}, "ok", "what the tools of AWS find"),
        ("bedrock/some", {"AWS_CONFIG_FILE": "/none"}, "problem", "Set AWS_REGION"),
        ("openai/some", {"OPENAI_API_KEY": "k", "ARCHON_PRICES": "/none"}, "problem", "no usable prices"),
        ("openai/some", {"OPENAI_BASE_URL": "http://me:pass@10.0.0.1:11434/v1"}, "ok", "10.0.0.1:11434, without a key"),
    ],
)
async def test_model_has_a_valid_name_and_a_key(
    monkeypatch: pytest.MonkeyPatch, spec: str, variables: dict[str, str], level: str, text: str
) -> None:
    findings = await check_model(monkeypatch, {"ARCHON_MODEL": spec, **variables}, online=False)
    assert levels(findings) == [level] and text in texts(findings)
    assert "pass" not in texts(findings)


@pytest.mark.parametrize(
    ("status", "body", "level", "text"),
    [
        (200, b'{"data": [{"id": "some"}]}', "ok", "the endpoint answers"),
        (200, b'{"data": [{"id": "other"}]}', "warning", "has no model some"),
        (200, b"hello", "ok", "the endpoint answers"),
        (401, b"", "problem", "the key is rejected"),
        (404, b"", "warning", "status 404"),
        (302, b"", "warning", "status 302"),
    ],
)
async def test_online_check_queries_the_endpoint(
    monkeypatch: pytest.MonkeyPatch, status: int, body: bytes, level: str, text: str
) -> None:
    with http_server(status, body, {"Location": "http://127.0.0.1:1/elsewhere"}) as (address, requests):
        variables = {
            "ARCHON_MODEL": "openai/some",
            "OPENAI_BASE_URL": f"http://{address}/v1",
            "OPENAI_API_KEY": "s3cret",
        }
        findings = await check_model(monkeypatch, variables, online=True)
    assert levels(findings) == [level] and text in texts(findings)
    assert (requests[0]["path"], requests[0]["Authorization"]) == ("/v1/models", "Bearer s3cret")
    assert "s3cret" not in texts(findings)


async def test_a_server_on_this_machine_is_asked_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    with http_server(200, b'{"data": [{"id": "some"}]}', {}) as (address, requests):
        variables = {"ARCHON_MODEL": "openai/some", "OPENAI_BASE_URL": f"http://{address}/v1"}
        findings = await check_model(monkeypatch, {**variables, "all_proxy": "http://127.0.0.1:9"}, online=True)
        findings += await check_model(monkeypatch, {**variables, "http_proxy": "http://127.0.0.1:9"}, online=True)
    assert levels(findings) == ["ok", "ok"] and len(requests) == 2


async def test_each_model_of_a_fallback_chain_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    variables = {"ARCHON_MODEL": "anthropic/some, offline,openai/some", "ANTHROPIC_API_KEY": "k"}
    findings = await check_model(monkeypatch, variables, online=False)
    assert levels(findings) == ["ok", "ok", "problem"]


async def test_online_check_queries_the_endpoint_of_anthropic(monkeypatch: pytest.MonkeyPatch) -> None:
    with http_server(200, b'{"data": [{"id": "some"}]}', {}) as (address, requests):
        variables = {
            "ARCHON_MODEL": "anthropic/some",
            "ANTHROPIC_BASE_URL": f"http://{address}",
            "ANTHROPIC_API_KEY": "s3cret",
        }
        findings = await check_model(monkeypatch, variables, online=True)
    assert levels(findings) == ["ok"] and "the endpoint answers" in texts(findings)
    assert (requests[0]["path"], requests[0]["Authorization"]) == ("/v1/models", "Bearer s3cret")
    assert "anthropic-version" in {name.lower() for name in requests[0]}


async def test_online_check_queries_the_endpoint_of_google(monkeypatch: pytest.MonkeyPatch) -> None:
    with http_server(200, b'{"models": [{"name": "models/some"}]}', {}) as (address, requests):
        variables = {"ARCHON_MODEL": "google/some", "GOOGLE_BASE_URL": f"http://{address}", "GOOGLE_API_KEY": "s3cret"}
        findings = await check_model(monkeypatch, variables, online=True)
    assert levels(findings) == ["ok"] and "the endpoint answers" in texts(findings)
    assert requests[0]["path"].startswith("/v1beta/models")
    assert "s3cret" in requests[0].values()


async def test_unreachable_endpoint_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    for endpoint in ("http://127.0.0.1:1/v1", "nowhere"):
        variables = {"ARCHON_MODEL": "openai/some", "OPENAI_BASE_URL": endpoint}
        assert levels(await check_model(monkeypatch, variables, online=True)) == ["problem"]


async def check_model(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], *, online: bool) -> list[Finding]:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return await model.check_models(None, variables, online=online)


async def test_the_models_of_a_running_mesh_are_checked_instead_of_that_of_the_shell() -> None:
    agents = [ProcessState(f"a-{number}", "agent", "healthy", model="offline") for number in range(2)]
    agents.append(ProcessState("b-1", "agent", "healthy", model="nonsense"))
    state = MeshState("ready", 1, "/nowhere", (*agents, ProcessState("registry", "service", "healthy")))
    findings = await model.check_models(state, {"ARCHON_MODEL": "openai/other"}, online=False)
    assert [(finding.level, finding.message) for finding in findings] == [
        ("problem", "unknown model 'nonsense'"),
        ("ok", "offline"),
    ]
