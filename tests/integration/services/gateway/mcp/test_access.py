"""Who reaches MCP: the description for OAuth, pages elsewhere, runs as resources, and secret answers on a page."""

from __future__ import annotations

import re

import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

from archon.principal import Kind, Principal
from tests.fixtures.http_gateway import OPERATOR
from tests.fixtures.mcp_mesh import ERAS, MODERN, Person, mcp_client, text_of
from tests.integration.services.gateway.mcp.conftest import Office

OTHER = Principal(Kind.OPERATOR, "otto")


async def test_a_request_without_a_token_is_told_where_tokens_come_from(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARCHON_OIDC_ISSUER", "https://login.example.com")
    async with office.mesh.http() as http:
        refused = await http.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "ping"})
        assert refused.status_code == 401
        (url,) = re.findall(r'resource_metadata="([^"]+)"', refused.headers["www-authenticate"])
        described = (await http.get(url)).json()
    assert described["resource"] == f"{office.mesh.url}/mcp"
    assert described["authorization_servers"] == ["https://login.example.com"]
    assert described["bearer_methods_supported"] == ["header"]
    assert url == f"{office.mesh.url}/.well-known/oauth-protected-resource/mcp"


async def test_a_page_elsewhere_and_a_strange_host_are_refused(office: Office) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    async with office.mesh.http() as http:
        page = await http.post("/mcp", json=body, headers={"origin": "https://evil.example.com"})
        assert page.status_code == 403
    async with office.mesh.http(OPERATOR) as http:
        host = await http.post("/mcp", json=body, headers={"host": "evil.example.com"})
        assert host.status_code == 403


@pytest.mark.parametrize("era", ERAS)
async def test_runs_are_resources_that_are_listed_read_and_completed(office: Office, era: str) -> None:
    async with mcp_client(office.mesh, OPERATOR, era) as client:
        run_id = ((await client.call_tool("finder", {"goal": "a picture"})).meta or {})["dev.archon/run-id"]
        uri = f"archon://runs/{run_id}"
        listed = {resource.uri: resource for resource in (await client.list_resources()).resources}
        assert listed[uri].description == "A run that is completed."
        (content,) = (await client.read_resource(uri)).contents
        assert isinstance(content, types.TextResourceContents) and '"state": "completed"' in content.text
        parts = (await client.read_resource(f"{uri}/answers/1")).contents
        assert [part.mime_type for part in parts] == ["text/plain", "image/png", "text/csv"]
        ref = types.ResourceTemplateReference(uri="archon://runs/{run_id}")
        completed = await client.complete(ref, {"name": "run_id", "value": run_id[:12]})
        assert run_id in completed.completion.values
        for wrong in (f"{uri}/answers/2", "archon://runs/none", "file:///etc/passwd"):
            with pytest.raises(MCPError, match="Resource not found"):
                await client.read_resource(wrong)
        with pytest.raises(MCPError):
            await client.list_resources(cursor="x")


async def test_a_secret_answer_is_given_on_a_page_of_its_owner(office: Office) -> None:
    class Reader(Person):
        async def answer(self, context: object, params: types.ElicitRequestParams) -> types.ElicitResult:
            assert isinstance(params, types.ElicitRequestURLParams)
            async with office.mesh.http(OTHER) as http:
                assert (await http.get(params.url)).status_code == 403
            async with office.mesh.http(OPERATOR) as http:
                page = await http.get(params.url)
                assert 'type="password"' in page.text and "Your key?" in page.text
                sent = await http.post(params.url, content="answer=s3cret", headers={"origin": office.mesh.url})
                assert "encrypted" in sent.text
                assert "not open any more" in (await http.get(params.url)).text
            async with office.mesh.http() as http:
                assert (await http.get(params.url)).headers["location"].startswith("/login?next=/mcp/secrets/")
                assert (await http.post(f"{params.url}x", content="answer=x")).status_code == 401
            return types.ElicitResult(action="accept")

    async with mcp_client(office.mesh, OPERATOR, MODERN, person=Reader()) as client:
        result = await client.call_tool("clerk", {"goal": "secret"})
    assert text_of(result) == "a secret of 6 characters"
