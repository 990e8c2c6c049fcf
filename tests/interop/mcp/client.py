"""The client that the MCP conformance suite expects, over Archon's `McpToolSource`: `python -m tests.interop.mcp.client
URL`, with the scenario in MCP_CONFORMANCE_SCENARIO and its data in MCP_CONFORMANCE_CONTEXT."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.client.auth.extensions.identity_assertion import IdentityAssertionOAuthProvider
from mcp.client.auth.utils import build_protected_resource_metadata_discovery_urls
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from archon_mesh.tools import ToolExecutionEngine, ToolRegistry
from archon_mesh.tools.mcp import McpToolSource
from archon_mesh.tools.people import PersonAnswer, PersonQuestion, answered_by

REDIRECT: Final = "http://localhost:3000/callback"
SAMPLES: Final = {"integer": 0, "number": 0, "boolean": False, "object": {}, "array": [], "null": None}
"""Arguments for required parameters by their types."""


class Storage:
    """Keeps tokens and the registration in memory."""

    def __init__(self, client: OAuthClientInformationFull | None) -> None:
        self.tokens: OAuthToken | None = None
        self.client = client

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class Browser:
    """Follows the redirect of an authorization server, which asks no person."""

    def __init__(self) -> None:
        self.location = ""

    async def open(self, url: str) -> None:
        async with httpx2.AsyncClient() as client:
            response = await client.get(url, follow_redirects=False)
        self.location = response.headers["location"]

    async def code(self) -> AuthorizationCodeResult:
        query = {name: values[0] for name, values in parse_qs(urlsplit(self.location).query).items()}
        return AuthorizationCodeResult(code=query["code"], state=query.get("state"), iss=query.get("iss"))


async def authorization(scenario: str, url: str, context: dict[str, Any]) -> httpx2.Auth:
    """Returns the authorization that a scenario is about: that of a program, or of a person with a browser."""
    match scenario:
        case "auth/client-credentials-basic":
            return ClientCredentialsOAuthProvider(
                url,
                Storage(None),
                context["client_id"],
                context["client_secret"],
                "client_secret_basic",
                issuer=await issuer_of(url),
            )
        case "auth/client-credentials-jwt":
            name = context["client_id"]
            signed = SignedJWTParameters(
                issuer=name,
                subject=name,
                signing_algorithm=context.get("signing_algorithm", "ES256"),
                signing_key=context["private_key_pem"],
            )
            return PrivateKeyJWTOAuthProvider(
                url, Storage(None), name, signed.create_assertion_provider(), issuer=await issuer_of(url)
            )
        case "auth/enterprise-managed-authorization":
            return await enterprise_authorization(url, context)
    return browser_authorization(url, context)


async def issuer_of(url: str) -> str:
    """Returns the authorization server of the suite, which the suite does not tell in another way."""
    async with httpx2.AsyncClient() as client:
        metadata = (await client.get(build_protected_resource_metadata_discovery_urls(None, url)[0])).json()
    return str(metadata["authorization_servers"][0])


async def enterprise_authorization(url: str, context: dict[str, Any]) -> httpx2.Auth:
    """Returns the authorization by the identity provider of a company."""

    async def assertion(audience: str, resource: str) -> str:
        data = {
            "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
            "requested_token_type": "urn:ietf:params:oauth:token-type:id-jag",
            "subject_token": context["idp_id_token"],
            "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
            "audience": audience,
            "resource": resource,
            "client_id": context["idp_client_id"],
        }
        async with httpx2.AsyncClient() as client:
            response = await client.post(context["idp_token_endpoint"], data=data)
        return str(response.raise_for_status().json()["access_token"])

    return IdentityAssertionOAuthProvider(
        server_url=url,
        storage=Storage(None),
        client_id=context["client_id"],
        client_secret=context["client_secret"],
        issuer=await issuer_of(url),
        assertion_provider=assertion,
        token_endpoint_auth_method="client_secret_basic",
    )


def browser_authorization(url: str, context: dict[str, Any]) -> httpx2.Auth:
    """Returns the authorization by a person, of a client that is registered already if the context has its id."""
    registered = None
    if client_id := context.get("client_id"):
        secret = context.get("client_secret")
        registered = OAuthClientInformationFull(
            client_id=client_id,
            client_secret=secret,
            redirect_uris=[AnyUrl(REDIRECT)],
            token_endpoint_auth_method="client_secret_basic" if secret else "none",
        )
    browser = Browser()
    metadata = OAuthClientMetadata(
        client_name="archon",
        redirect_uris=[AnyUrl(REDIRECT)],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
    )
    return OAuthClientProvider(
        server_url=url,
        client_metadata=metadata,
        storage=Storage(registered),
        redirect_handler=browser.open,
        callback_handler=browser.code,
        client_metadata_url="https://conformance-test.local/client-metadata.json",
    )


async def answer(question: PersonQuestion) -> PersonAnswer | str:
    """Answers a server as a person does who confirms everything else as it is."""
    fields = (question.schema or {}).get("properties", {})
    return json.dumps(
        {name: True for name, field in fields.items() if field.get("type") == "boolean" and "default" not in field}
    )


def arguments(schema: Any) -> dict[str, Any]:
    """Returns arguments for what a tool requires."""
    properties = schema.get("properties", {})
    return {name: SAMPLES.get(properties.get(name, {}).get("type"), "x") for name in schema.get("required", ())}


async def run(scenario: str, url: str, context: dict[str, Any]) -> None:
    """Calls the tools of the server as the scenario wants it."""
    auth = await authorization(scenario, url, context) if scenario.startswith("auth/") else None
    async with McpToolSource("suite", url=url, auth=auth, may_ask=True) as source:
        registry = ToolRegistry()
        source.register(registry)
        engine = ToolExecutionEngine(registry)
        tools = {tool.name: tool for tool in source.tools}

        calls = [(name, arguments(tool.parameters_schema)) for name, tool in tools.items()]
        if "toolCalls" in context:
            calls = [
                (each["name"], each.get("arguments") or {}) for each in context["toolCalls"] if each["name"] in tools
            ]
        elif "json_schema_echo" in tools:
            calls = [("json_schema_echo", {"schema": dict(tools["json_schema_2020_12_tool"].parameters_schema)})]
        elif "add_numbers" in tools:
            calls = [("add_numbers", {"a": 5, "b": 3})]
        with answered_by(answer):
            if "toolCalls" in context:  # as they are: some have values that the schema does not allow
                for each in context["toolCalls"]:
                    if each["name"] in tools:
                        await source.call(each["name"], each.get("arguments") or {})
                return
            for name, given in calls:
                result = await engine.execute_tool_call(f"suite.{name}", given)
                print(f"{name}: {result.text}", file=sys.stderr)


if __name__ == "__main__":
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    asyncio.run(run(os.environ["MCP_CONFORMANCE_SCENARIO"], sys.argv[1], context))
