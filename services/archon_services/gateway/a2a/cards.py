"""Agent cards: the description of an agent of the room for A2A clients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Final

from a2a.types import a2a_pb2
from a2a.utils.constants import PROTOCOL_VERSION_1_0, TransportProtocol

from archon.wire import JSON_TYPE
from archon_services.common.a2a_parts import TEXT_TYPE
from archon_services.gateway.agents import MeshAgent

INPUT_MODES: Final = (
    TEXT_TYPE,
    "text/markdown",
    "text/csv",
    "text/html",
    JSON_TYPE,
    "application/pdf",
    "application/octet-stream",
    "image/png",
    "image/jpeg",
    "image/gif",
    "image/webp",
    "audio/wav",
    "audio/mpeg",
)
"""Media types that every role takes, unless its capabilities name others."""

BEARER: Final = "bearer"
OPENID: Final = "openid"
MAX_SKILLS: Final = 500
"""Skills of a card."""


@dataclass(frozen=True, slots=True)
class CardPlace:
    """Where the room is reached: `base_url` without a slash at its end, host:port of gRPC, and the name of the mesh.
    `openid` is the issuer of the people's tokens; `secured` says whether calls need a token."""

    base_url: str
    grpc_target: str = ""
    mesh_name: str = "archon"
    secured: bool = False
    openid: str = ""
    push: bool = True


def path_of(agent: str) -> str:
    """Returns the path of an agent's interface below the base URL."""
    return f"/a2a/roles/{agent}" if agent else "/a2a"


def card_of(agent: MeshAgent, place: CardPlace, *, extended: bool = False) -> a2a_pb2.AgentCard:
    """Returns the card of an agent, not signed. The extended card has its tools and the schema of its answers too."""
    card = a2a_pb2.AgentCard(
        name=agent.name or place.mesh_name,
        description=agent.description or _default_description(agent),
        version=agent.version or (version("archon-mesh") if not agent.name else "1"),
        supported_interfaces=_interfaces(agent, place),
        capabilities=a2a_pb2.AgentCapabilities(
            streaming=True, push_notifications=place.push, extended_agent_card=place.secured
        ),
        default_input_modes=INPUT_MODES,
        default_output_modes=[JSON_TYPE] if agent.output_schema_json else [TEXT_TYPE, JSON_TYPE],
        skills=_skills(agent, extended=extended)[:MAX_SKILLS],
    )
    _secure(card, place)
    return card


def _default_description(agent: MeshAgent) -> str:
    if agent.name:
        return f"The role {agent.name} of a mesh of agents."
    roles = ", ".join(role.name for role in agent.roles[:20])
    return f"A mesh of agents, which chooses the roles for each task. Roles: {roles or 'none now'}."


def _interfaces(agent: MeshAgent, place: CardPlace) -> Sequence[a2a_pb2.AgentInterface]:
    url = place.base_url + path_of(agent.name)
    common = {"protocol_version": PROTOCOL_VERSION_1_0}
    over_http = (TransportProtocol.JSONRPC, TransportProtocol.HTTP_JSON) if place.base_url else ()
    interfaces = [a2a_pb2.AgentInterface(url=url, protocol_binding=each, **common) for each in over_http]
    if place.grpc_target:
        grpc = a2a_pb2.AgentInterface(
            url=place.grpc_target, protocol_binding=TransportProtocol.GRPC, tenant=agent.name, **common
        )
        interfaces.append(grpc)
    return interfaces


def _skills(agent: MeshAgent, *, extended: bool) -> list[a2a_pb2.AgentSkill]:
    if not agent.name:
        return [
            a2a_pb2.AgentSkill(
                id=role.name,
                name=role.name,
                description=role.description or _default_description(role),
                tags=[each.id for each in role.capabilities] or [role.name],
            )
            for role in agent.roles
        ]
    skills = [
        a2a_pb2.AgentSkill(
            id=each.id,
            name=each.name or each.id,
            description=each.description or agent.description or each.id,
            tags=each.tags or [each.id],
            examples=each.examples,
            input_modes=each.input_modes,
            output_modes=each.output_modes,
        )
        for each in agent.capabilities
    ]
    if not skills:
        about = agent.description or _default_description(agent)
        skills = [a2a_pb2.AgentSkill(id=agent.name, name=agent.name, description=about, tags=[agent.name])]
    if extended and agent.tools:
        about = f"Tools that the role calls: {', '.join(agent.tools)}."
        skills.append(a2a_pb2.AgentSkill(id="tools", name="tools", description=about, tags=list(agent.tools)))
    return skills


def _secure(card: a2a_pb2.AgentCard, place: CardPlace) -> None:
    if not place.secured:
        return
    bearer = a2a_pb2.HTTPAuthSecurityScheme(
        scheme="Bearer", bearer_format="JWT", description="A token of the mesh: archon token."
    )
    card.security_schemes[BEARER].http_auth_security_scheme.CopyFrom(bearer)
    card.security_requirements.add().schemes[BEARER].SetInParent()
    if place.openid:
        url = f"{place.openid.rstrip('/')}/.well-known/openid-configuration"
        scheme = card.security_schemes[OPENID].open_id_connect_security_scheme
        scheme.open_id_connect_url = url
        card.security_requirements.add().schemes[OPENID].SetInParent()
