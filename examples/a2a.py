"""A client of the protocol's own SDK calls a role of a mesh."""

from __future__ import annotations

import uuid

import httpx
from a2a.client import ClientConfig, ClientFactory
from a2a.client.card_resolver import A2ACardResolver
from a2a.client.client import ClientCallContext
from a2a.types import Message, Part, Role, SendMessageRequest


async def ask(url: str, token: str, text: str) -> str:
    """Sends a text to the agent at `url` and returns the text of its answer."""
    headers = {"authorization": f"Bearer {token}"} if token else {}
    async with httpx.AsyncClient(trust_env=False, timeout=60) as http:
        card = await A2ACardResolver(http, url).get_agent_card()
        client = ClientFactory(ClientConfig(httpx_client=http)).create(card)
        message = Message(message_id=str(uuid.uuid4()), role=Role.ROLE_USER, parts=[Part(text=text)])
        answer = ""
        async for event in client.send_message(
            SendMessageRequest(message=message), context=ClientCallContext(service_parameters=headers)
        ):
            for part in event.artifact_update.artifact.parts:
                answer += part.text
            for artifact in event.task.artifacts:
                answer += "".join(part.text for part in artifact.parts)
        return answer
