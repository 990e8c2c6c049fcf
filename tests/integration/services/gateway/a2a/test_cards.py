"""Agent cards: signed, for each role and for the mesh, with addresses that no caller can choose."""

from __future__ import annotations

import pytest
from a2a.client.card_resolver import parse_agent_card
from a2a.types import a2a_pb2
from a2a.utils.errors import A2AError
from a2a.utils.signing import InvalidSignaturesError, create_signature_verifier
from jwt.api_jwk import PyJWKSet

from tests.fixtures.a2a_mesh import GRPC, JSONRPC, calling
from tests.fixtures.http_gateway import OPERATOR, STRANGER
from tests.integration.services.gateway.a2a.conftest import Office

WELL_KNOWN = "/.well-known/agent-card.json"


async def test_a_card_is_signed_by_the_published_key(office: Office) -> None:
    async with office.mesh.http() as http:
        keys = PyJWKSet.from_dict((await http.get("/.well-known/jwks.json")).json())
        verify = create_signature_verifier(lambda kid, _: next(k for k in keys.keys if k.key_id == kid), ["ES256"])
        for path in ("", "/a2a", "/a2a/roles/clerk"):
            card = parse_agent_card((await http.get(path + WELL_KNOWN)).json())
            verify(card)
            card.supported_interfaces[0].url = "https://evil.example"
            with pytest.raises(InvalidSignaturesError):
                verify(card)


async def test_a_role_is_described_by_its_registration(office: Office) -> None:
    async with office.mesh.http() as http:
        card = (await http.get(f"/a2a/roles/clerk{WELL_KNOWN}")).json()
        mesh = (await http.get(WELL_KNOWN)).json()
    assert (card["name"], card["description"]) == ("clerk", "Does its duty")
    assert [skill["id"] for skill in card["skills"]] == ["painting"]
    assert [skill["id"] for skill in mesh["skills"]] == ["clerk", "echo"]
    assert [each["protocolBinding"] for each in card["supportedInterfaces"]] == ["JSONRPC", "HTTP+JSON", "GRPC"]
    assert card["supportedInterfaces"][2]["tenant"] == "clerk"
    assert card["securitySchemes"]["bearer"]["httpAuthSecurityScheme"]["scheme"] == "Bearer"


async def test_a_host_header_does_not_get_into_a_card(office: Office) -> None:
    async with office.mesh.http() as http:
        named = await http.get(WELL_KNOWN, headers={"host": "localhost:1"})
    assert next(each["url"] for each in named.json()["supportedInterfaces"]) == f"{office.mesh.url}/a2a"


async def test_an_unchanged_card_is_not_sent_again(office: Office) -> None:
    async with office.mesh.http() as http:
        first = await http.get(WELL_KNOWN)
        again = await http.get(WELL_KNOWN, headers={"if-none-match": first.headers["etag"]})
        own = await http.get(WELL_KNOWN, headers=office.mesh.headers(OPERATOR))
    assert (again.status_code, first.headers["cache-control"]) == (304, "public, max-age=60")
    assert (own.status_code, own.headers["cache-control"]) == (200, "private, max-age=60")


async def test_a_role_without_an_instance_has_no_card(office: Office) -> None:
    async with office.mesh.http() as http:
        assert (await http.get(f"/a2a/roles/unknown{WELL_KNOWN}")).status_code == 404
        assert (await http.get(f"/a2a/roles/Not%20a%20role{WELL_KNOWN}")).status_code == 404
        strangers = await http.get(f"/a2a/roles/clerk{WELL_KNOWN}", headers=office.mesh.headers(STRANGER))
        assert strangers.status_code == 404


@pytest.mark.parametrize("binding", [JSONRPC, GRPC])
async def test_the_extended_card_needs_a_token(office: Office, binding: str) -> None:
    request = a2a_pb2.GetExtendedAgentCardRequest()
    async with calling(office.mesh, OPERATOR, binding=binding) as caller:
        card = await caller.client.get_extended_agent_card(request, context=caller.context)
        assert card.name == "clerk" and card.signatures
    async with calling(office.mesh, None, binding=binding) as unknown:
        with pytest.raises((A2AError, Exception), match=r"401|token"):
            await unknown.client.get_extended_agent_card(request, context=unknown.context)
