"""Hooks from Python: a hook for GitHub, a test delivery, a change, and another secret."""

from __future__ import annotations

import httpx2

from archon import Client
from archon.types import Hook


async def review(client: Client) -> tuple[str, str]:
    hook, secret = await client.hooks.create(
        "review",
        "Review {{ body.pull_request.html_url }} by {{ body.sender.login }}.",
        scheme="github",
        events=["pull_request.opened", "pull_request.synchronize"],
        run={"roles": ["reviewer"], "timeout": 900.0, "session_id": "pr-{{ body.pull_request.number }}"},
    )
    return hook.path, secret


async def deliver(client: Client, gateway: str, body: bytes) -> httpx2.Response:
    path, headers = await client.hooks.sign("review", body, event="pull_request")
    async with httpx2.AsyncClient() as http:
        return await http.post(f"{gateway}{path}", content=body, headers=headers)


async def widened(client: Client) -> Hook:
    hook = await client.hooks.get("review")
    return await client.hooks.update("review", events=["pull_request"], run={"timeout": 1_800.0}, etag=hook.etag)


async def rotated(client: Client) -> str:
    _, secret = await client.hooks.rotate("review", overlap=3_600)
    return secret
